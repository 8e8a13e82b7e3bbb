package report

import (
	"cmp"
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
	backend := func(c *Cell) bool { return c.Subject != Article && c.NotRun == "" }
	for _, class := range slices.Backward(Classes()) {
		if items := r.where(func(c *Cell) bool { return backend(c) && c.Class == class && Harmful(class) }); len(items) > 0 {
			all = append(all, finding{class, false, lookOf(class).Harm, items})
		}
	}
	for _, class := range Classes() {
		if items := r.where(func(c *Cell) bool { return backend(c) && c.Class == class && c.Landed() }); len(items) > 0 {
			all = append(all, finding{class, true, "A write by an older holder landed after a newer one had the lock", items})
		}
	}
	return slices.Concat(all, r.articleFindings(), r.soundFindings(), r.costFindings())
}

// where are the hazards of which there are such cells, and which those are.
func (r *Report) where(such func(*Cell) bool) (items []string) {
	for _, m := range r.rows() {
		var on []string
		for _, c := range m.All() {
			if such(c) {
				on = append(on, fmt.Sprintf("%s (%s%s)", r.title(c.Subject), strings.TrimPrefix(c.Variant+"; ", "; "), c.runs()))
			}
		}
		if len(on) > 0 {
			items = append(items, strings.TrimSpace(m.ID+" "+m.Title)+": on "+list(on))
		}
	}
	return items
}

// runs is in how many runs of a cell its harm was seen: "2 of 3 runs".
func (c *Cell) runs() string {
	return c.Often() + map[bool]string{true: " run", false: " runs"}[c.Of == 1]
}

// articleFindings say how the locks of the articles fared.
func (r *Report) articleFindings() []finding {
	bad, all := 0, 0
	var items []string
	for _, class := range slices.Backward(Classes()) {
		var hazards []string
		for _, c := range r.Cells {
			if c.Subject == Article && c.NotRun == "" && c.Class == class {
				hazards = append(hazards, c.Hazard)
			}
		}
		all += len(hazards)
		if Harmful(class) {
			bad += len(hazards)
		}
		if n := len(hazards); n > 0 {
			items = append(items, fmt.Sprintf("%s: %s (%s)", class, count(n), strings.Join(slices.Compact(hazards), ", ")))
		}
	}
	if all == 0 {
		return nil
	}
	return []finding{{Text: fmt.Sprintf("Of %s with a lock from an article, %s came to harm", plural(all, "scenario", "scenarios"), count(bad)), Items: items}}
}

// soundFindings name the backends without harm, and those that were unavailable while a fault lasted.
func (r *Report) soundFindings() (all []finding) {
	var sound, away []string
	runs := 0
	for _, s := range r.columns() {
		harm, n := false, 0
		var unavailable []string
		for _, c := range r.Cells {
			if c.Subject != s.Name || c.NotRun != "" || c.Subject == Article {
				continue
			}
			n += c.Of
			harm = harm || Harmful(c.Class)
			if c.Class == Unavailable {
				unavailable = append(unavailable, strings.TrimSpace(c.Hazard+" "+c.Variant))
			}
		}
		if !harm && n > 0 {
			sound = append(sound, s.Title)
			runs += n
		}
		if len(unavailable) > 0 {
			away = append(away, fmt.Sprintf("%s (%s)", s.Title, strings.Join(unavailable, ", ")))
		}
	}
	if len(sound) > 0 {
		all = append(all, finding{Text: fmt.Sprintf("On %s no harm was seen, in %s. That does not prove that nothing can happen.", list(sound), plural(runs, "run", "runs"))})
	}
	if len(away) > 0 {
		all = append(all, finding{Text: "While a fault lasted nobody could get a lock on " + list(away) + "."})
	}
	return all
}

// costFindings compare the subjects by the medians: the least and the greatest.
func (r *Report) costFindings() []finding {
	var items []string
	for _, m := range metrics {
		var all []*Costs
		for i := range r.Costs {
			if _, ok := m.of(&r.Costs[i]); ok && m.finding != "" {
				all = append(all, &r.Costs[i])
			}
		}
		if len(all) == 0 {
			continue
		}
		value := func(c *Costs) float64 { v, _ := m.of(c); return v }
		slices.SortStableFunc(all, func(a, b *Costs) int { return cmp.Compare(value(a), value(b)) })
		tell := func(c *Costs) string { return m.text(value(c)) + " on " + r.title(c.Subject) }
		if len(all) == 1 {
			items = append(items, m.finding+": "+tell(all[0]))
		} else {
			items = append(items, fmt.Sprintf("%s: from %s to %s", m.finding, tell(all[0]), tell(all[len(all)-1])))
		}
	}
	if len(items) == 0 {
		return nil
	}
	return []finding{{Text: "What locks cost on this machine, by medians", Items: items}}
}
