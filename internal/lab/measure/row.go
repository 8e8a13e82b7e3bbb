package measure

import (
	"slices"
	"strconv"
)

// Row is what was measured of one library in one scenario.
type Row struct {
	Library, Kind string
	// Turns are the numbers of the measured turns, from 0.
	Turns   []int    `json:",omitempty"`
	Figures []Figure `json:",omitempty"`
	// NotRun says why it was not measured at all. Failed says what happened in the missing turns.
	NotRun string   `json:",omitempty"`
	Failed []string `json:",omitempty"`
	// Samples are the single measurements of all turns, by kind.
	Samples map[string][]float64 `json:"-"`
}

// Figure is one quantity, with its value in each turn.
type Figure struct {
	Name, Unit string
	// Best is "less" or "more", or empty if neither is better.
	Best string    `json:",omitempty"`
	Each []float64 // one for each of the row's turns
}

// Less returns a figure of one turn; less is better.
func Less(name, unit string, v float64) Figure { return Figure{name, unit, "less", []float64{v}} }

// More returns a figure of one turn; more is better.
func More(name, unit string, v float64) Figure { return Figure{name, unit, "more", []float64{v}} }

// Add adds a turn's figures to a row. Every turn must have the same figures. Five digits are kept, more than any run can distinguish.
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

// Figure returns the row's figure of that name, or an empty one.
func (r Row) Figure(name string) (f Figure) {
	if i := slices.IndexFunc(r.Figures, func(f Figure) bool { return f.Name == name }); i >= 0 {
		f = r.Figures[i]
	}
	return f
}

// Against combines a figure with another row's figure its, for each turn in which both rows were measured.
func (r Row) Against(figure string, other Row, its string, of func(mine, other float64) float64) (each []float64) {
	a, b := r.Figure(figure).Each, other.Figure(its).Each
	for i := range a {
		if j := slices.Index(other.Turns, r.Turns[i]); j >= 0 && j < len(b) {
			each = append(each, of(a[i], b[j]))
		}
	}
	return each
}

// Ratios returns the ratios of a figure to another row's, turn by turn: a slow machine slows both. It omits turns in which the other figure is 0.
func (r Row) Ratios(other Row, figure string) []float64 {
	each := r.Against(figure, other, figure, func(mine, other float64) float64 {
		if other <= 0 {
			return -1
		}
		return mine / other
	})
	return slices.DeleteFunc(each, func(v float64) bool { return v < 0 })
}
