package report

import "slices"

// Quantiles summarize samples. The unit is stated at the field that has them.
type Quantiles struct {
	N   int     `json:"n"`
	Min float64 `json:"min"`
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// Spread summarizes repeated measurements in one run: the median, the least and the greatest.
type Spread struct {
	N      int     `json:"n"`
	Median float64 `json:"median"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
}

// QuantilesOf computes the quantiles of samples, without changing them; zero without samples. A quantile is the least sample that this percentage of
// the samples does not exceed (nearest rank), so each is a real measurement.
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

// SpreadOf computes the spread of values, without changing them; zero without values. The median of an even number of values is the mean of the two
// in the middle.
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
