package redischeck

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/redisscript"
)

// Redis 6.0 does not know SET with GET.
func TestOldServersAreRefused(t *testing.T) {
	err := Tried(redisscript.Reply{Value: []any{"SET", "ERR syntax error"}}, nil)
	require.ErrorIs(t, err, driver.ErrRefused)
	require.ErrorContains(t, err, "too old: 6.2 or newer")
}
