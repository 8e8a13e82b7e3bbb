package hazards

import (
	"slices"

	"github.com/lockport/lockport/compare/report"
)

// worst is the worse of two classes; the empty one is better than all.
func worst(a, b report.Class) report.Class {
	all := report.Classes()
	if slices.Index(all, a) >= slices.Index(all, b) {
		return a
	}
	return b
}
