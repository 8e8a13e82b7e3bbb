package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
)

// describedLock is a lock with this token.
type describedLock lockport.Token

func (describedLock) Name() string                    { return "a=b" }
func (describedLock) Owner() string                   { return "me" }
func (d describedLock) Token() (lockport.Token, bool) { return lockport.Token(d), d > 0 }

func TestEnvironment(t *testing.T) {
	inherited := []string{"A=1", "LOCKPORT_TOKEN=7", "LOCKPORT_TOKENS=8", "LOCKPORT_TOKEN=9", "LOCKPORT_OWNER=x", "LOCKPORT_NAME", "B=2"}
	rest := []string{"A=1", "LOCKPORT_TOKENS=8", "B=2", "LOCKPORT_NAME=a=b", "LOCKPORT_OWNER=me", "LOCKPORT_BACKEND=redlock"}
	require.Equal(t, rest, environment(inherited, "redlock", describedLock(0)), "a stale token must go where there is no own")
	require.Equal(t, append(rest, "LOCKPORT_TOKEN=2048"), environment(inherited, "redlock", describedLock(2048)))
}
