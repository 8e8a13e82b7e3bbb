package examine

import (
	"fmt"
	"time"

	"github.com/lockport/lockport/driver"
)

// Maintained says until when the versions of a server from From on, before that of the next line, are maintained by those who make it.
type Maintained struct {
	From  Version
	Until time.Time // zero: not announced
}

// EndOfLife is the notice about a server whose version is not maintained at now. lines are in order; versions after them are taken to be maintained.
func EndOfLife(name, version string, now time.Time, lines []Maintained, link string) []driver.Notice {
	v, ok := ParseVersion(version)
	if !ok {
		return nil
	}
	for i := len(lines) - 1; i >= 0; i-- {
		if v.before(lines[i].From) {
			continue
		}
		if lines[i].Until.IsZero() || !now.After(lines[i].Until) {
			return nil
		}
		return []driver.Notice{{ID: "end-of-life",
			Text: fmt.Sprintf("%s %s has not been maintained since %s (%s): errors that endanger locks are no longer corrected in it.", name, version,
				lines[i].Until.Format("January 2006"), link),
			Remedy: "Upgrade to a version that is maintained, or see that your distribution or service maintains this one."}}
	}
	return nil
}

// EndOf is the end of a month, for tables of Maintained.
func EndOf(year int, month time.Month) time.Time {
	return time.Date(year, month+1, 1, 0, 0, 0, 0, time.UTC).Add(-time.Second)
}
