package stage

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	p, ok := parse([]byte("42 (a name) with) S 7 42 42 0 -1 4194560 1 2 3 4 150 50 20 30 20 0 1 0 100 1 1"))
	require.True(t, ok)
	require.Equal(t, process{pid: 42, parent: 7, own: 2 * time.Second, childrens: 500 * time.Millisecond}, p)
	_, ok = parse([]byte("nothing"))
	require.False(t, ok)
}

func TestTree(t *testing.T) {
	before, memory := tree(os.Getpid())
	require.Positive(t, memory)
	for {
		if after, _ := tree(os.Getpid()); after > before {
			return // it is this process's own work that is seen
		}
	}
}
