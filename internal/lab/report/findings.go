package report

import (
	"fmt"
	"slices"
	"strings"
)

// finding is what the data say in a sentence, and the hazards of which it was seen.
type finding struct {
	Class Class // the harm that it tells of; empty for none
	Text  string
	Items []string
}

// Findings are what the data say, the worst first.
func (r view) Findings() (all []finding) {
	for _, l := range slices.Backward(looks) {
		if items := r.where(l.Class); l.Harm != "" && len(items) > 0 {
			all = append(all, finding{l.Class, l.Harm + ":", items})
		}
	}
	harmed, played := 0, 0
	for _, c := range r.Cells {
		if c.Subject == Article && c.NotRun == "" {
			played++
			if Harmful(c.Class) {
				harmed++
			}
		}
	}
	if played > 0 {
		all = append(all, finding{Text: fmt.Sprintf("Scenarios with a lock from an article: %d. It came to harm in %d of them.", played, harmed)})
	}
	return all
}

// where names the hazards that came to a class on backends, and these cells.
func (r view) where(class Class) (items []string) {
	for _, m := range r.Matrix() {
		var on []string
		for _, e := range m.All() {
			if e.Subject != Article && e.shows(class) {
				on = append(on, fmt.Sprintf("%s (%s%s runs)", e.Who, strings.TrimPrefix(e.Variant+"; ", "; "), e.Often()))
			}
		}
		if len(on) > 0 {
			items = append(items, m.ID+" "+m.Hazard.Title+": on "+strings.Join(on, ", "))
		}
	}
	return items
}
