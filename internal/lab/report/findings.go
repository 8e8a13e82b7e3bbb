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
	return slices.Concat(all, r.articleFindings(), r.soundFindings(), r.costFindings())
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
		if n := len(hazards); n > 0 {
			items = append(items, fmt.Sprintf("%s: %s (%s)", class, count(n), strings.Join(slices.Compact(hazards), ", ")))
			all += n
			if Harmful(class) {
				bad += n
			}
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
	total := 0
	for _, s := range r.columns() {
		harm, runs := false, 0
		var unavailable []string
		for _, c := range r.Cells {
			if c.Subject == s.Name && c.Subject != Article && c.NotRun == "" {
				runs += c.Of
				harm = harm || Harmful(c.Class)
				if c.Class == Unavailable {
					unavailable = append(unavailable, strings.TrimSpace(c.Hazard+" "+c.Variant))
				}
			}
		}
		if !harm && runs > 0 {
			sound = append(sound, s.Title)
			total += runs
		}
		if len(unavailable) > 0 {
			away = append(away, fmt.Sprintf("%s (%s)", s.Title, strings.Join(unavailable, ", ")))
		}
	}
	if len(sound) > 0 {
		all = append(all, finding{Text: fmt.Sprintf("On %s no harm was seen, in %s. That does not prove that nothing can happen.", list(sound), plural(total, "run", "runs"))})
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
		type figure struct {
			value float64
			on    string
		}
		var all []figure
		for _, c := range r.Costs {
			if n, value := m.of(c.filled()); n > 0 {
				all = append(all, figure{value, m.text(value) + " on " + r.title(c.Subject)})
			}
		}
		if len(all) == 0 || m.finding == "" {
			continue
		}
		less := func(a, b figure) int { return cmp.Compare(a.value, b.value) }
		text := m.finding + ": "
		if len(all) > 1 {
			text += "from " + slices.MinFunc(all, less).on + " to "
		}
		items = append(items, text+slices.MaxFunc(all, less).on)
	}
	if len(items) == 0 {
		return nil
	}
	return []finding{{Text: "What locks cost on this machine, by medians", Items: items}}
}
