package redischeck

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/internal/redisscript"
)

// A refused question is an unknown; any other error is an error.
func TestDenied(t *testing.T) {
	for text, want := range map[string]bool{
		"ERR unknown command 'INFO', with args beginning with: ":        true, // renamed, as managed services do
		"NOPERM this user has no permissions to run the 'info' command": true,
		"LOADING Redis is loading the dataset in memory":                false,
		"ERR invalid argument": false,
	} {
		require.Equal(t, want, denied(redisscript.ReplyError(text)), text)
	}
	require.False(t, denied(errors.New("unknown command")), "not from a server")
}
