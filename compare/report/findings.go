package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// finding is what the data say in a sentence, with what it is about below it, if that is more than one thing.
type finding struct {
	class Class // of the harm that it tells of, if it does
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
		all = append(all, finding{Unsafe, text, nil})
	}
	all = append(all, r.harmFindings()...)
	for _, text := range slices.Concat(r.articleFindings(), r.soundFindings(), r.costFindings()) {
		all = append(all, finding{text: text})
	}
	return all
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
	rows := r.matrix()
	for _, class := range slices.Backward(Classes()) {
		if !harmed(class) {
			continue
		}
		f := finding{class: class}
		refused := true
		for _, m := range rows {
			var where []string
			for _, c := range slices.Concat(m.cells...) {
				if c.Subject != Article && c.NotRun == "" && c.Class == class {
					refused = refused && c.LateWrite == "refused"
					where = append(where, fmt.Sprintf("%s (%s)", r.called(c), r.runs(c)))
				}
			}
			if len(where) > 0 {
				f.items = append(f.items, title(m.Hazard)+": on "+list(where))
			}
		}
		if len(f.items) > 0 {
			f.text = harm(class) + aftermath(class, refused)
			all = append(all, f)
		}
	}
	return all
}

func title(h Hazard) string {
	if h.Title == "" {
		return h.ID
	}
	return h.ID + " " + h.Title
}

// called is what people call a cell's subject, with its variant.
func (r *Report) called(c *Cell) string {
	if c.Variant != "" {
		return r.title(c.Subject) + " with " + c.Variant
	}
	return r.title(c.Subject)
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

// articleFindings count how the locks of the articles fared.
func (r *Report) articleFindings() []string {
	var bad, all int
	for _, c := range r.Cells {
		if c.Subject == Article && c.NotRun == "" {
			all++
			if harmed(c.Class) {
				bad++
			}
		}
	}
	if all == 0 {
		return nil
	}
	return []string{fmt.Sprintf("Of %s that articles teach, %s came to harm.", plural(all, "lock", "locks"), count(bad))}
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
			if c.Class == Unavailable && !slices.Contains(unavailable, c.Hazard) {
				unavailable = append(unavailable, c.Hazard)
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
		all = append(all, "Nobody could have a lock while the fault lasted on "+list(away)+".")
	}
	return all
}

// costFindings compare the medians.
func (r *Report) costFindings() (all []string) {
	type figure struct {
		subject string
		value   float64
	}
	compare := func(what string, text func(float64) string, of func(Costs) (float64, bool)) {
		var figures []figure
		for _, c := range r.Costs {
			if v, ok := of(c); ok {
				figures = append(figures, figure{r.title(c.Subject), v})
			}
		}
		slices.SortStableFunc(figures, func(a, b figure) int { return cmp.Compare(a.value, b.value) })
		switch n := len(figures); {
		case n == 1:
			all = append(all, fmt.Sprintf("%s: %s on %s.", what, text(figures[0].value), figures[0].subject))
		case n > 1:
			all = append(all, fmt.Sprintf("%s: from %s on %s to %s on %s.", what, text(figures[0].value), figures[0].subject,
				text(figures[n-1].value), figures[n-1].subject))
		}
	}
	compare("An uncontended Acquire took, by medians", micros, func(c Costs) (float64, bool) {
		if c.Cycle == nil || c.Cycle.Acquire.N == 0 {
			return 0, false
		}
		return c.Cycle.Acquire.P50, true
	})
	compare("From a release until a waiter in another process had the lock", micros, func(c Costs) (float64, bool) {
		if c.HandOff == nil || c.HandOff.Time.N == 0 {
			return 0, false
		}
		return c.HandOff.Time.P50, true
	})
	compare("After the kill of a holder somebody else had the lock", millis, func(c Costs) (float64, bool) {
		if c.Takeover == nil || c.Takeover.Time.N == 0 {
			return 0, false
		}
		return c.Takeover.Time.P50, true
	})
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
