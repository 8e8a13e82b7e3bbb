package report

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestQuantilesOf(t *testing.T) {
	var hundred []float64
	for i := range 100 {
		hundred = append(hundred, float64(i+1))
	}
	rand.Shuffle(len(hundred), func(i, j int) { hundred[i], hundred[j] = hundred[j], hundred[i] })
	before := append([]float64(nil), hundred...)
	q := QuantilesOf(hundred)
	require.Equal(t, before, hundred, "the samples stay in their order")
	require.Equal(t, []float64{100, 1, 25, 50, 75, 90, 99, 100}, []float64{float64(q.N), q.Min, q.P25, q.P50, q.P75, q.P90, q.P99, q.Max})
}

func TestQuantilesOfFew(t *testing.T) {
	require.Equal(t, Quantiles{}, QuantilesOf(nil))
	q := QuantilesOf([]float64{7})
	require.Equal(t, []float64{1, 7, 7, 7, 7}, []float64{float64(q.N), q.Min, q.P50, q.P99, q.Max})
	q = QuantilesOf([]float64{3, 1, 2}) // half of three are not exceeded by the second
	require.Equal(t, []float64{1, 2, 3, 3}, []float64{q.P25, q.P50, q.P75, q.P99})
}

func TestSpreadOf(t *testing.T) {
	require.Equal(t, Spread{}, SpreadOf(nil))
	values := []float64{5, 1, 3}
	require.Equal(t, Spread{N: 3, Median: 3, Low: 1, High: 5}, SpreadOf(values))
	require.Equal(t, []float64{5, 1, 3}, values, "not changed")
	require.Equal(t, Spread{N: 4, Median: 3.5, Low: 1, High: 5}, SpreadOf([]float64{5, 1, 3, 4}))
}
