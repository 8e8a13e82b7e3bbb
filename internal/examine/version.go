package examine

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/lockport/lockport/driver"
)

// Version is a server's: {7, 0, 15}.
type Version [3]int

// ParseVersion reads the version that text begins with: "3.8.0-${mvnGitCommitId}", "15.18 (Debian…)", "17beta1". What is missing is 0.
func ParseVersion(text string) (v Version, ok bool) {
	for i := range v {
		end := 0
		for end < len(text) && text[end] >= '0' && text[end] <= '9' {
			end++
		}
		n, err := strconv.Atoi(text[:end])
		if err != nil {
			return v, i > 0
		}
		v[i] = n
		rest, more := strings.CutPrefix(text[end:], ".")
		if !more {
			break
		}
		text = rest
	}
	return v, true
}

// String is "7.0.15".
func (v Version) String() string { return fmt.Sprintf("%d.%d.%d", v[0], v[1], v[2]) }

func (v Version) before(w Version) bool { return slices.Compare(v[:], w[:]) < 0 }

// Defect is an error in some versions of a server that endangers locks.
type Defect struct {
	From, Fixed Version // From and later, before Fixed
	Text        string  // what goes wrong, after "in this version "
	Link        string  // where the server's developers say so
}

// Defects is the notice about a server of that name and version, if a defect of known is in it. where, if not empty, says which server it is:
// "Node 10.0.0.1:6379: ".
func Defects(where, name, version string, known []Defect) []driver.Notice {
	v, ok := ParseVersion(version)
	if !ok {
		return nil
	}
	var texts, links []string
	var fixed Version
	for _, d := range known {
		if v.before(d.From) || !v.before(d.Fixed) {
			continue
		}
		texts, links = append(texts, d.Text), append(links, d.Link)
		if fixed.before(d.Fixed) {
			fixed = d.Fixed
		}
	}
	if len(texts) == 0 {
		return nil
	}
	return []driver.Notice{{ID: "version",
		Text:   fmt.Sprintf("%s%s %v has known errors: %s (%s).", where, name, v, strings.Join(texts, "; "), strings.Join(links, ", ")),
		Remedy: fmt.Sprintf("Upgrade to %v or newer; where a distribution has put the corrections into an older version, its notes say so.", fixed)}}
}
