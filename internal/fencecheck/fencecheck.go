// Package fencecheck has what the fences on servers share: how a token is written there, and what is said to a holder whose own is not found.
package fencecheck

import (
	"fmt"
	"strconv"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/fence"
)

// Missing is the text of a token that is not there at all.
const Missing = ""

// Parse reads a token. false: text is none.
func Parse(text string) (lockport.Token, bool) {
	n, err := strconv.ParseUint(text, 10, 64)
	return lockport.Token(n), err == nil && n > 0
}

// Refuse is the error for the holder of token, where the server has seen instead: a token's text, Missing, or what is no token.
func Refuse(where string, token lockport.Token, seen string) error {
	n, ok := Parse(seen)
	switch {
	case seen == Missing:
		return fmt.Errorf("%w: no token is registered at %q any more, the fence was removed or its data were lost: register again if the lock is still held",
			fence.ErrStale, where)
	case !ok:
		return fmt.Errorf("%q has no fencing token but something else: give the fence a place of its own", where)
	case n < token:
		return fmt.Errorf("%w: token %d is registered at %q, which is older than %d: the fence's data were lost, register again if the lock is still held",
			fence.ErrStale, n, where, token)
	}
	return &fence.StaleError{Name: where, Token: token, Seen: n}
}

// Lost is the error for a holder whose lock's own key or node, key, is gone from the server.
func Lost(key string) error {
	return fmt.Errorf("%w: %w: %q is gone: the lock has ended, was released, or has another holder", fence.ErrStale, lockport.ErrLost, key)
}
