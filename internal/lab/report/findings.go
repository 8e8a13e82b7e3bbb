package report

import (
	"fmt"
	"slices"
	"strings"
)

// finding is what the data say in a sentence, with what it is about below it, if that is more than one thing.
type finding struct {
	class Class // of the harm that it tells of, if it does
	late  bool  // it tells of late writes that landed in cells of this class
	text  string
	items []string
}

// sentence is the text as it stands alone, or before its items.
func (f finding) sentence() string {
	if len(f.items) > 0 {
		return f.text + ":"
	}
	return f.text
}

// findings are what the data say, the worst first.
func (r *Report) findings() []finding {
	all := []finding{}
	for _, text := range r.overlapFindings() {
		all = append(all, finding{class: Unsafe, text: text})
	}
	all = append(all, r.harmFindings()...)
	all = append(all, r.landedFindings()...)
	all = append(all, r.articleFindings()...)
	for _, text := range r.soundFindings() {
		all = append(all, finding{text: text})
	}
	return append(all, r.costFindings()...)
}

// overlapFindings tell of what must not be: two that had the lock at one time although nothing was done to it.
func (r *Report) overlapFindings() (all []string) {
	for _, c := range r.Costs {
		n := 0
		for _, t := range c.Contention {
			n += t.Overlaps
		}
		if n > 0 {
			all = append(all, fmt.Sprintf("On %s two clients had the lock at one time, %s, although nothing was done to it: this is a bug.", r.title(c.Subject), often(n)))
		}
	}
	return all
}

func often(n int) string {
	if n == 1 {
		return "once"
	}
	return count(n) + " times"
}

// harmFindings have the hazards of each class of harm, with the backends on which it was seen.
func (r *Report) harmFindings() (all []finding) {
	for _, class := range slices.Backward(Classes()) {
		if !harmed(class) {
			continue
		}
		refused := true
		f := finding{class: class, items: r.cellsWhere(true, func(c *Cell) bool {
			if c.Subject == Article || c.Class != class {
				return false
			}
			refused = refused && c.LateWrite == "refused"
			return true
		})}
		if len(f.items) > 0 {
			f.text = harm(class) + aftermath(class, refused)
			all = append(all, f)
		}
	}
	return all
}

// landedFindings tell of late writes that a class says nothing of.
func (r *Report) landedFindings() (all []finding) {
	for _, class := range Classes() {
		items := r.cellsWhere(false, func(c *Cell) bool { return c.Subject != Article && c.Class == class && c.landed() })
		if len(items) > 0 {
			all = append(all, finding{class, true, "What an older holder wrote after a newer one had the lock landed all the same", items})
		}
	}
	return all
}

// cellsWhere are the hazards of which there are such cells, and which those are, with their runs or without.
func (r *Report) cellsWhere(runs bool, such func(*Cell) bool) (items []string) {
	for _, m := range r.matrix() {
		var where []string
		for _, c := range slices.Concat(m.cells...) {
			if c.NotRun == "" && such(c) {
				where = append(where, r.called(c, runs))
			}
		}
		if len(where) > 0 {
			items = append(items, title(m.Hazard)+": on "+list(where))
		}
	}
	return items
}

func title(h Hazard) string {
	if h.Title == "" {
		return h.ID
	}
	return h.ID + " " + h.Title
}

// called is what people call a cell's subject, with its variant, and in how many of its runs the harm was seen: "etcd (alone; 1 of 1 run)".
func (r *Report) called(c *Cell, runs bool) string {
	var more []string
	if c.Variant != "" {
		more = append(more, c.Variant)
	}
	if runs {
		more = append(more, r.runs(c))
	}
	if len(more) == 0 {
		return r.title(c.Subject)
	}
	return fmt.Sprintf("%s (%s)", r.title(c.Subject), strings.Join(more, "; "))
}

// runs is in how many runs of a cell its harm was seen.
func (r *Report) runs(c *Cell) string {
	if c.Of == 1 {
		return c.seen() + " run"
	}
	return c.seen() + " runs"
}

func harm(c Class) string {
	switch c {
	case Unsafe, Fenced:
		return "Two believed to hold the lock at one time"
	case Stuck:
		return "Nobody could have the lock any more"
	case Misled:
		return "A caller was told what was not so"
	case Costly:
		return "Those who waited kept the server busy"
	}
	return string(c)
}

func aftermath(c Class, refused bool) string {
	switch {
	case c == Unsafe:
		return ", and nothing refused the late write"
	case c == Fenced && refused:
		return "; the fencing token refused the late write"
	case c == Fenced: // it was not tried, or not each time
		return "; their fencing tokens told them apart"
	}
	return ""
}

// articleFindings say how the locks of the articles fared.
func (r *Report) articleFindings() []finding {
	var bad, all int
	var items []string
	for _, class := range slices.Backward(Classes()) {
		var hazards []string
		n := 0
		for _, c := range r.Cells {
			if c.Subject != Article || c.NotRun != "" || c.Class != class {
				continue
			}
			if n++; !slices.Contains(hazards, c.Hazard) {
				hazards = append(hazards, c.Hazard)
			}
		}
		all += n
		if harmed(class) {
			bad += n
		}
		if n > 0 {
			items = append(items, fmt.Sprintf("%s: %s (%s)", class, count(n), strings.Join(hazards, ", ")))
		}
	}
	if all == 0 {
		return nil
	}
	return []finding{{text: fmt.Sprintf("Of %s with a lock that an article teaches, %s came to harm", plural(all, "scenario", "scenarios"), count(bad)), items: items}}
}

// soundFindings name the backends on which no harm was seen, and those that could not be had while a fault lasted.
func (r *Report) soundFindings() (all []string) {
	var sound, away []string
	runs := 0
	for _, s := range r.columns() {
		if s.Name == Article {
			continue
		}
		hurt, n := false, 0
		var unavailable []string
		for _, c := range r.Cells {
			if c.Subject != s.Name || c.NotRun != "" {
				continue
			}
			n += c.Of
			hurt = hurt || harmed(c.Class)
			if c.Class == Unavailable {
				unavailable = append(unavailable, strings.TrimSpace(c.Hazard+" "+c.Variant))
			}
		}
		if !hurt && n > 0 {
			sound = append(sound, s.Title)
			runs += n
		}
		if len(unavailable) > 0 {
			away = append(away, fmt.Sprintf("%s (%s)", s.Title, strings.Join(unavailable, ", ")))
		}
	}
	if len(sound) > 0 {
		all = append(all, fmt.Sprintf("On %s no harm was seen, in %s. That nothing was seen is no proof that nothing can happen.",
			list(sound), plural(runs, "run", "runs")))
	}
	if len(away) > 0 {
		all = append(all, "While a fault lasted nobody could have a lock on "+list(away)+".")
	}
	return all
}

// list joins names: "a, b and c".
func list(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return count(n) + " " + many
}
