package fence

import (
	"errors"
	"fmt"

	"github.com/lockport/lockport"
)

var (
	// ErrStale: a newer holder of the lock was seen, or the fence no longer knows this token, so nothing was written. Stop; let the newer holder work, and if
	// the work is still to be done, acquire the lock anew. Every fence of this module returns errors that match it, with errors.Is.
	ErrStale = errors.New("fencing token is stale")

	// ErrNoToken: the token is 0, which no holder has: the lock's backend has no fencing tokens (see lockport.Require and lockport.NeedTokens).
	ErrNoToken = errors.New("no fencing token: use a lock whose backend has them")
)

// StaleError is ErrStale with the two tokens.
type StaleError struct {
	Name  string         // the fenced name; empty if the error around this one has it
	Token lockport.Token // that was refused
	Seen  lockport.Token // the greatest that was seen
}

// Error implements error.
func (e *StaleError) Error() string {
	of := ""
	if e.Name != "" {
		of = fmt.Sprintf(" of %.80q", e.Name)
	}
	return fmt.Sprintf("fencing token %d%s is stale: a newer holder registered %d; nothing was written, stop", e.Token, of, e.Seen)
}

// Is makes errors.Is(err, ErrStale) true.
func (e *StaleError) Is(target error) bool { return target == ErrStale }

// Check compares a token with the greatest that was seen for name (0: none yet): nil if it may pass, which an equal one may; a *StaleError,
// or ErrNoToken. It is the whole rule of fencing, for those who build a fence of their own: what calls it must then
// remember the token, and write, in one step with the comparison.
func Check(name string, token, seen lockport.Token) error {
	switch {
	case token == 0:
		return ErrNoToken
	case token < seen:
		return &StaleError{Name: name, Token: token, Seen: seen}
	}
	return nil
}
