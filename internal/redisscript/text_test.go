package redisscript

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// text is a Text that is itself.
type text string

func (t text) Append(b []byte) []byte { return append(b, t...) }

// A Text goes to the server as the same string would, whatever its length.
func TestTextsGoAsStrings(t *testing.T) {
	for _, n := range []int{0, 1, 9, 10, 99, 100, 12345} {
		s := strings.Repeat("x", n)
		require.Equal(t, appendArgs([]byte("before"), []any{"a", s, int64(1)}), appendArgs([]byte("before"), []any{"a", text(s), int64(1)}))
	}
}

// go-redis is given strings: it routes by them, and shows them to hooks. The arguments are still the caller's.
func TestGoRedisIsGivenStrings(t *testing.T) {
	args := []any{"evalsha", "sha", "1", text("key"), text("value")}
	c := newCommand(args)
	require.Equal(t, []any{"evalsha", "sha", "1", "key", "value"}, c.Args())
	require.Equal(t, text("key"), args[3])
}
