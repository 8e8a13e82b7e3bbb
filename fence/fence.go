package fence

import (
	"errors"
	"fmt"

	"github.com/lockport/lockport"
)

var (
	// ErrStale: nothing was written, because a newer holder registered or the fence no longer knows this token. Stop. If the work still needs
	// doing, acquire the lock again. Every fence of this module returns errors that match ErrStale with errors.Is.
	ErrStale = errors.New("fencing token is stale")

	// ErrNoToken: the token is 0, because the lock's backend has no fencing tokens (see lockport.Require and lockport.NeedTokens).
	ErrNoToken = errors.New("no fencing token: use a lock whose backend has them")
)

// StaleError is ErrStale with the two tokens.
type StaleError struct {
	Name  string         // the fenced name; empty if the enclosing error has it
	Token lockport.Token // the refused token
	Seen  lockport.Token // the greatest token seen
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

// Check is the rule of fencing: it compares a token with the greatest seen for name (0: none yet). It returns nil if token is not
// smaller, ErrNoToken if token is 0, otherwise a *StaleError. Your own fence must call Check, remember the token, and write, all in one step.
func Check(name string, token, seen lockport.Token) error {
	switch {
	case token == 0:
		return ErrNoToken
	case token < seen:
		return &StaleError{Name: name, Token: token, Seen: seen}
	}
	return nil
}
