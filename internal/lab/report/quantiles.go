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

// QuantilesOf returns the quantiles of samples, by nearest rank: each is a real measurement. Without samples they are zero.
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
