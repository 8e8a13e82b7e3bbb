package run

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/bench/crew"
)

func TestJudge(t *testing.T) {
	// Who asked at 0 had the lock from 10 to 20; and so on.
	a := crew.Held{Client: 0, Asked: 1, Got: 10, Ended: 20}
	b := crew.Held{Client: 1, Asked: 2, Got: 20, Ended: 30}
	again := crew.Held{Client: 1, Asked: 31, Got: 32, Ended: 33}
	late := crew.Held{Client: 2, Asked: 3, Got: 150, Ended: 151}
	never := crew.Held{Client: 3, Asked: 4}
	f := judge([]crew.Held{never, late, again, b, a}, 4, 100)
	require.Equal(t, fairness{holds: 3, changes: 2, starved: 2, shares: 2, longest: 147}, f)

	b.Got = 19
	require.Equal(t, 1, judge([]crew.Held{a, b}, 2, 100).overlaps)
	inside := crew.Held{Client: 2, Got: 25, Ended: 26}
	require.Equal(t, 2, judge([]crew.Held{a, b, inside}, 3, 100).overlaps, "a long hold with another one in it")
}

func TestPasses(t *testing.T) {
	const us = 1000
	holds := []crew.Held{
		{Client: 0, Asked: 1, Got: 10 * us, Ended: 20 * us},
		{Client: 1, Asked: 2, Got: 21 * us, Ended: 30 * us},       // of the same process
		{Client: 2, Asked: 3, Got: 35 * us, Ended: 40 * us},       // five after the release
		{Client: 0, Asked: 41 * us, Got: 42 * us, Ended: 43 * us}, // nobody waited
		{Client: 3, Asked: 5, Got: 150 * us, Ended: 160 * us},     // too late
		{Client: 1, Asked: 6}, // never
	}
	require.Equal(t, []float64{5}, passes(holds, 2, 100*us))
}
