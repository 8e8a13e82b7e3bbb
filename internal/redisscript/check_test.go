package redisscript

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
)

// Redis 6.0 does not know SET with GET.
func TestOldServersAreRefused(t *testing.T) {
	err := Tried(Reply{Value: []any{"SET", "ERR syntax error"}}, nil)
	require.ErrorIs(t, err, driver.ErrRefused)
	require.ErrorContains(t, err, "too old: 6.2 or newer")
}
