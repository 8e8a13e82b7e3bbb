package recent

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestValues(t *testing.T) {
	var r Values[int]
	_, ok := r.Get("x")
	require.False(t, ok)
	for i := range 3 * size {
		r.Put(strconv.Itoa(i), i)
		v, ok := r.Get(strconv.Itoa(i))
		require.True(t, ok)
		require.Equal(t, i, v)
		require.LessOrEqual(t, len(r.byName), size)
	}
}
