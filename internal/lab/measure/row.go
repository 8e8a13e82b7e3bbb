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
	// Failed says what happened in the missing turns.
	Failed []string `json:",omitempty"`
	// Samples are the single measurements of all turns, by kind.
	Samples map[string][]float64 `json:"-"`
}

// Figure is one quantity, with its value in each turn.
type Figure struct {
	Name, Unit string
	Each       []float64 // one for each of the row's turns
}

// figure returns a figure of one turn.
func figure(name, unit string, v float64) Figure { return Figure{name, unit, []float64{v}} }

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
