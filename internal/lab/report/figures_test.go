package report

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestQuantilesOf(t *testing.T) {
	var hundred []float64
	for i := range 100 {
		hundred = append(hundred, float64((i*37)%100+1))
	}
	for _, c := range []struct{ samples, want []float64 }{
		{hundred, []float64{1, 50, 99, 100}},
		{nil, make([]float64, 4)},
		{[]float64{7}, []float64{7, 7, 7, 7}},
		{[]float64{3, 1, 2}, []float64{1, 2, 3, 3}}, // the second of three is the median
	} {
		q := QuantilesOf(c.samples)
		require.Equal(t, c.want, []float64{q.Min, q.P50, q.P99, q.Max})
		require.Equal(t, len(c.samples), q.N)
	}
	require.Equal(t, 38.0, hundred[1], "the samples stay in their order")
}
