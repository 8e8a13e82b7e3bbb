package report

import "math"

// scale maps values to coordinates.
type scale struct {
	low, high float64 // values
	from, to  float64 // coordinates
	log       bool
}

// at is the coordinate of a value; of one that is off the scale, its nearer end.
func (s scale) at(v float64) float64 {
	low, high := s.low, s.high
	if s.log {
		v, low, high = math.Log(math.Max(v, s.low)), math.Log(low), math.Log(high)
	}
	if !(high > low) || math.IsNaN(v) {
		return s.from
	}
	return s.from + (s.to-s.from)*math.Min(1, math.Max(0, (v-low)/(high-low)))
}

// linear is a scale from 0 to high or somewhat more, with its ticks: round numbers, n of them or fewer.
func linear(high, from, to float64, n int) (scale, []float64) {
	if !(high > 0) || math.IsInf(high, 0) {
		high = 1
	}
	step := math.Pow(10, math.Floor(math.Log10(high/float64(n))))
	for _, m := range []float64{1, 2, 5, 10, 20, 50} {
		if high/(step*m) <= float64(n) {
			step *= m
			break
		}
	}
	var ticks []float64
	for i := 0; float64(i)*step <= high*(1+1e-9); i++ {
		ticks = append(ticks, float64(i)*step)
	}
	return scale{0, high, from, to, false}, ticks
}

// logarithmic is a scale of powers of ten around low and high, with its ticks. Values that are not above 0 are none.
func logarithmic(low, high, from, to float64) (scale, []float64) {
	if !(low > 0) || math.IsInf(low, 0) {
		low = 1
	}
	if !(high >= low) || math.IsInf(high, 0) {
		high = low
	}
	first, last := math.Floor(math.Log10(low)+1e-9), math.Ceil(math.Log10(high)-1e-9)
	if last <= first {
		last = first + 1
	}
	every := math.Max(1, math.Ceil((last-first)/8))
	var ticks []float64
	for e := first; e <= last; e += every {
		ticks = append(ticks, math.Pow(10, e))
	}
	return scale{math.Pow(10, first), math.Pow(10, last), from, to, true}, ticks
}

// finite is v, or 0 where it is no number or has no end.
func finite(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	return v
}
