package fencetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/fence"
)

// Errors checks the errors of the package of this name.
type Errors string

// OneLine requires a one-line error that names the package, contains text, and matches all of targets.
func (e Errors) OneLine(t testing.TB, err error, text string, targets ...error) {
	t.Helper()
	require.ErrorContains(t, err, string(e)+": ")
	require.ErrorContains(t, err, text)
	require.NotContains(t, err.Error(), "\n", "want one line")
	for _, target := range targets {
		require.ErrorIs(t, err, target)
	}
}

// Stale requires a one-line error that refuses token because of seen.
func (e Errors) Stale(t testing.TB, err error, token, seen lockport.Token) {
	t.Helper()
	e.OneLine(t, err, "", fence.ErrStale)
	var s *fence.StaleError
	require.ErrorAs(t, err, &s)
	require.Equal(t, []lockport.Token{token, seen}, []lockport.Token{s.Token, s.Seen}, "want a refusal of the first because of the second: %v", err)
}
