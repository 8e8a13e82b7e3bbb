package costs

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/faults"
	crew "github.com/lockport/lockport/internal/lab/worker"
)

func TestOverlaps(t *testing.T) {
	for name, c := range map[string]struct {
		holds []hold
		want  int
	}{
		"none":                              {nil, 0},
		"one after the other":               {[]hold{{0, 0, 10, 20}, {1, 0, 20, 30}, {0, 0, 31, 40}}, 0},
		"out of order":                      {[]hold{{1, 0, 20, 30}, {0, 0, 10, 20}}, 0},
		"two at one time":                   {[]hold{{0, 0, 10, 20}, {1, 0, 19, 30}}, 1},
		"three within a long one":           {[]hold{{0, 0, 10, 100}, {1, 0, 20, 30}, {2, 0, 40, 50}, {1, 0, 99, 110}}, 3},
		"the same client's, which it loses": {[]hold{{0, 0, 10, 20}, {0, 0, 15, 25}}, 1},
		"without duration":                  {[]hold{{0, 0, 10, 10}, {1, 0, 10, 10}, {2, 0, 10, 12}}, 0},
	} {
		require.Equal(t, c.want, overlaps(c.holds), name)
	}
}

func TestPackedHolds(t *testing.T) {
	holds := [][]hold{{{0, 1, 2, 3}, {0, 4, 5, 6}}, nil, {{2, 7, 8, 9}}}
	require.Equal(t, []hold{{10, 1, 2, 3}, {10, 4, 5, 6}, {12, 7, 8, 9}}, numbered(crew.Unpack[hold](crew.Pack(holds...)), 10))
	require.Empty(t, numbered(crew.Unpack[hold](crew.Pack[hold]()), 0))
}

func TestLongestGap(t *testing.T) {
	successes := []int64{0, 100, 110, 120, 150, 160, 165}
	require.Equal(t, 30*time.Nanosecond, longestGap(successes, faults.Instant(115)), "what came before the strike does not count")
	require.Equal(t, 10*time.Nanosecond, longestGap(successes, faults.Instant(150)))
	require.Equal(t, 100*time.Nanosecond, longestGap(successes, faults.Instant(50)), "it began before the strike and ended after it")
	require.Zero(t, longestGap(nil, 0))
}
