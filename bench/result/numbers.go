package result

import "slices"

// SpreadOf is that of some numbers; zero of none.
func SpreadOf(turns []float64) Spread {
	if len(turns) == 0 {
		return Spread{}
	}
	sorted := slices.Sorted(slices.Values(turns))
	n := len(sorted)
	return Spread{Median: (sorted[(n-1)/2] + sorted[n/2]) / 2, Low: sorted[0], High: sorted[n-1]}
}

// Value is what one turn has given.
type Value struct {
	Name, Unit, Best string
	V                float64
}

// Less is a value of which less is better; More and Plain are those of which more, or neither, is.
func Less(name, unit string, v float64) Value  { return Value{name, unit, "less", v} }
func More(name, unit string, v float64) Value  { return Value{name, unit, "more", v} }
func Plain(name, unit string, v float64) Value { return Value{name, unit, "", v} }

// Add adds a turn's values to a row: the same ones in every turn.
func (r *Row) Add(turn int, values []Value) {
	r.Turns = append(r.Turns, turn)
	for _, v := range values {
		i := slices.IndexFunc(r.Figures, func(f Figure) bool { return f.Name == v.Name })
		if i < 0 {
			i = len(r.Figures)
			r.Figures = append(r.Figures, Figure{Name: v.Name, Unit: v.Unit, Best: v.Best})
		}
		f := &r.Figures[i]
		f.Each = append(f.Each, v.V)
		f.Spread = SpreadOf(f.Each)
	}
}

// Compare adds the ratios of all rows to those which are references: lockport's own, and the floors. They are made of what was
// measured in the same turn.
func (s *Scenario) Compare() {
	for _, reference := range s.Rows {
		if reference.Kind != "ours" && reference.Kind != "floor" {
			continue
		}
		for r := range s.Rows {
			if row := &s.Rows[r]; row.Library != reference.Library {
				row.compare(reference)
			}
		}
	}
}

func (r *Row) compare(to Row) {
	for i := range r.Figures {
		f := &r.Figures[i]
		base, ok := to.Figure(f.Name)
		if !ok {
			continue
		}
		var ratios []float64
		for at, turn := range r.Turns {
			if j := slices.Index(to.Turns, turn); j >= 0 && base.Each[j] > 0 {
				ratios = append(ratios, f.Each[at]/base.Each[j])
			}
		}
		if len(ratios) == 0 {
			continue
		}
		if f.To == nil {
			f.To = make(map[string]Spread)
		}
		f.To[to.Library] = SpreadOf(ratios)
	}
}

// Figure is the row's figure of that name.
func (r Row) Figure(name string) (Figure, bool) {
	i := slices.IndexFunc(r.Figures, func(f Figure) bool { return f.Name == name })
	if i < 0 {
		return Figure{}, false
	}
	return r.Figures[i], true
}
