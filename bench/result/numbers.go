package result

import (
	"slices"
	"strconv"

	"github.com/lockport/lockport/internal/lab/report"
)

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
		r.Figures[i].Each = append(r.Figures[i].Each, rounded(v.V))
	}
}

// rounded is v with five digits, which is more than any run can tell apart.
func rounded(v float64) float64 {
	v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'g', 5, 64), 64)
	return v
}

// Against makes one number of two of each turn in which both rows were measured.
func (r Row) Against(figure string, other Row, others string, of func(mine, other float64) (float64, bool)) []float64 {
	a, ok := r.Figure(figure)
	b, both := other.Figure(others)
	if !ok || !both {
		return nil
	}
	var each []float64
	for i, turn := range r.Turns {
		if j := slices.Index(other.Turns, turn); j >= 0 {
			if v, ok := of(a.Each[i], b.Each[j]); ok {
				each = append(each, v)
			}
		}
	}
	return each
}

// Quotient is a ratio, for [Row.Against]: there is none to nothing.
func Quotient(mine, other float64) (float64, bool) {
	if other <= 0 {
		return 0, false
	}
	return mine / other, true
}

// Difference is one, for [Row.Against].
func Difference(mine, other float64) (float64, bool) { return mine - other, true }

// Ratio is that of a figure to another row's, made within each turn: what makes the machine slower for a while does so for both.
func (r Row) Ratio(figure string, to Row) report.Spread {
	return report.SpreadOf(r.Against(figure, to, figure, Quotient))
}

// Figure is the row's figure of that name.
func (r Row) Figure(name string) (Figure, bool) {
	i := slices.IndexFunc(r.Figures, func(f Figure) bool { return f.Name == name })
	if i < 0 {
		return Figure{}, false
	}
	return r.Figures[i], true
}
