package report

import (
	"fmt"
	"slices"
	"strings"
)

// finding is what the data say in a sentence, and what it is about if that is more than one thing.
type finding struct {
	Class Class // of the harm that it tells of, if it does
	Late  bool  // it tells of late writes that landed
	Text  string
	Items []string
}

// Sentence is the text as it stands alone, or before its items.
func (f finding) Sentence() string {
	if len(f.Items) > 0 {
		return f.Text + ":"
	}
	return f.Text
}

// findings are what the data say, the worst first.
func (r *Report) findings() (all []finding) {
	for _, c := range r.Costs {
		for _, n := range c.Contention {
			if n.Overlaps > 0 {
				all = append(all, finding{Class: Unsafe, Text: fmt.Sprintf("On %s two of %d clients held the lock at once, %s, although nothing was done to it: this is a bug.",
					r.title(c.Subject), n.Clients, plural(n.Overlaps, "time", "times"))})
			}
		}
	}
	add := func(f finding, such func(*Cell) bool) {
		if f.Items = r.where(such); len(f.Items) > 0 {
			all = append(all, f)
		}
	}
	for _, class := range slices.Backward(Classes()) {
		add(finding{Class: class, Text: lookOf(class).Harm}, func(c *Cell) bool { return c.Class == class && Harmful(class) })
	}
	for _, class := range Classes() {
		add(finding{Class: class, Late: true, Text: "A write by an older holder landed after a newer one had the lock"},
			func(c *Cell) bool { return c.Class == class && c.Landed() })
	}
	return append(all, r.articleFinding()...)
}

// where names the hazards with such cells of backends, and these cells.
func (r *Report) where(such func(*Cell) bool) (items []string) {
	for _, m := range r.rows() {
		var on []string
		for _, e := range m.All() {
			if e.Subject != Article && e.NotRun == "" && such(e.Cell) {
				runs := e.Often() + strings.TrimPrefix(plural(e.Of, " run", " runs"), count(e.Of)+" ")
				on = append(on, fmt.Sprintf("%s (%s%s)", e.Who, strings.TrimPrefix(e.Variant+"; ", "; "), runs))
			}
		}
		if len(on) > 0 {
			items = append(items, strings.TrimSpace(m.ID+" "+m.Title)+": on "+list(on))
		}
	}
	return items
}

// articleFinding says how the locks of the articles fared.
func (r *Report) articleFinding() (all []finding) {
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
		all = append(all, finding{Text: fmt.Sprintf("Of %s with a lock from an article, %s came to harm.", plural(played, "scenario", "scenarios"), count(harmed))})
	}
	return all
}
