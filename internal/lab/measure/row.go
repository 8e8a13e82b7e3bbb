package measure

import (
	"slices"
	"strconv"
)

// Row is what was measured of one library in one scenario.
type Row struct {
	Library, Kind string
	// Turns are the numbers of those in which it was measured: the first is 0.
	Turns   []int    `json:",omitempty"`
	Figures []Figure `json:",omitempty"`
	// NotRun is why it was not measured at all, and Failed what happened in the turns that are missing.
	NotRun string   `json:",omitempty"`
	Failed []string `json:",omitempty"`
	// Samples are single measurements of all turns, by what they are.
	Samples map[string][]float64 `json:"-"`
}

// Figure is one number, of all turns.
type Figure struct {
	Name, Unit string
	// Best is "less" or "more"; empty where neither is better.
	Best string    `json:",omitempty"`
	Each []float64 // of the row's turns
}

// Less is a figure of one turn of which less is better.
func Less(name, unit string, v float64) Figure { return Figure{name, unit, "less", []float64{v}} }

// More is a figure of one turn of which more is better.
func More(name, unit string, v float64) Figure { return Figure{name, unit, "more", []float64{v}} }

// Add adds a turn's figures to a row: the same ones in every turn. They keep five digits, which is more than any run can tell apart.
func (r *Row) Add(turn int, figures ...Figure) {
	r.Turns = append(r.Turns, turn)
	for _, f := range figures {
		v, _ := strconv.ParseFloat(strconv.FormatFloat(f.Each[0], 'g', 5, 64), 64)
		i := slices.IndexFunc(r.Figures, func(other Figure) bool { return f.Name == other.Name })
		if i < 0 {
			i, f.Each = len(r.Figures), nil
			r.Figures = append(r.Figures, f)
		}
		r.Figures[i].Each = append(r.Figures[i].Each, v)
	}
}

// Figure is the row's figure of that name, or an empty one.
func (r Row) Figure(name string) (f Figure) {
	if i := slices.IndexFunc(r.Figures, func(f Figure) bool { return f.Name == name }); i >= 0 {
		f = r.Figures[i]
	}
	return f
}

// Against makes one number of two of each turn in which both rows were measured: of a figure, and of another row's figure.
func (r Row) Against(figure string, other Row, its string, of func(mine, other float64) float64) (each []float64) {
	a, b := r.Figure(figure).Each, other.Figure(its).Each
	for i := range a {
		if j := slices.Index(other.Turns, r.Turns[i]); j >= 0 && j < len(b) {
			each = append(each, of(a[i], b[j]))
		}
	}
	return each
}

// Ratios are those of a figure to another row's, made within each turn: a slow machine slows both. There is no ratio to nothing.
func (r Row) Ratios(other Row, figure string) []float64 {
	each := r.Against(figure, other, figure, func(mine, other float64) float64 {
		if other <= 0 {
			return -1
		}
		return mine / other
	})
	return slices.DeleteFunc(each, func(v float64) bool { return v < 0 })
}
