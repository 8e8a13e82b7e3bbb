package hazards

import (
	"slices"

	"github.com/lockport/lockport/internal/lab/report"
)

// worst is the worse of two classes; the empty one is better than all.
func worst(a, b report.Class) report.Class {
	all := report.Classes()
	if slices.Index(all, a) >= slices.Index(all, b) {
		return a
	}
	return b
}

// harmful says that something happened which should not; that nobody can have the lock while the server is away is no harm.
func harmful(c report.Class) bool { return worst(c, report.Unavailable) != report.Unavailable }
