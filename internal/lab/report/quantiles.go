package report

import "slices"

// Quantiles are what is told of samples. The unit stands at the field that has them.
type Quantiles struct {
	N   int     `json:"n"`
	Min float64 `json:"min"`
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// Spread is a figure that was taken several times in one run: its median, and the least and the greatest.
type Spread struct {
	N      int     `json:"n"`
	Median float64 `json:"median"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
}

// QuantilesOf are those of samples, which it does not change; the zero value if there are none. A quantile is the least
// sample that so many percent of the samples do not exceed (the nearest rank): each is one that was really measured.
func QuantilesOf(samples []float64) Quantiles {
	if len(samples) == 0 {
		return Quantiles{}
	}
	sorted := slices.Sorted(slices.Values(samples))
	at := func(percent int) float64 {
		rank := (percent*len(sorted) + 99) / 100
		return sorted[max(rank, 1)-1]
	}
	return Quantiles{N: len(samples), Min: sorted[0], P50: at(50), P99: at(99), Max: sorted[len(sorted)-1]}
}

// SpreadOf is that of a figure's values, which it does not change; the zero value if there are none. The median of an even number of them is half way
// between the two in the middle.
func SpreadOf(values []float64) Spread {
	if len(values) == 0 {
		return Spread{}
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	median := sorted[middle]
	if len(sorted)%2 == 0 {
		median = (sorted[middle-1] + median) / 2
	}
	return Spread{N: len(sorted), Median: median, Low: sorted[0], High: sorted[len(sorted)-1]}
}
