// Package fencecheck holds what the fences on servers share: the form of a token, and the errors for a holder whose token is not the registered one.
package fencecheck

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/fence"
)

// Place is where a fence keeps the token of the latest holder.
type Place struct {
	Package string // in errors
	Key     string
	Digits  int // of a token's text, padded with zeros, if the server compares texts; 0: no padding
}

// Padding is Digits for texts that sort like their numbers: the greatest token has this many digits.
const Padding = 20

// Missing is the text of a missing token.
const Missing = ""

// Format is the text of a token.
func (p Place) Format(token lockport.Token) string {
	return fmt.Sprintf("%0*d", p.Digits, uint64(token))
}

// Parse reads the text of a token. false: it is not one.
func (p Place) Parse(text string) (lockport.Token, bool) {
	n, err := strconv.ParseUint(text, 10, 64)
	return lockport.Token(n), err == nil && n > 0 && (p.Digits == 0 || len(text) == p.Digits)
}

// Explain says what failed, and where.
func (p Place) Explain(did string, err error) error {
	return fmt.Errorf("%s: %s at %q: %w", p.Package, did, p.Key, err)
}

// Refuse is the error for the holder of token if the server has seen instead: another token's text, Missing, or anything else.
func (p Place) Refuse(token lockport.Token, seen string) error {
	n, ok := p.Parse(seen)
	switch {
	case seen == Missing:
		return fmt.Errorf("%s: %w: %q no longer has a token: the fence was removed or lost its data; register again if you still hold the lock",
			p.Package, fence.ErrStale, p.Key)
	case !ok:
		return fmt.Errorf("%s: the value at %q is not a fencing token: give the fence a place of its own", p.Package, p.Key)
	case n < token:
		return fmt.Errorf("%s: %w: token %d, registered at %q, is older than %d: the fence lost its data; register again if you still hold the lock",
			p.Package, fence.ErrStale, n, p.Key, token)
	}
	return fmt.Errorf("%s: %w", p.Package, &fence.StaleError{Name: p.Key, Token: token, Seen: n})
}

// Lost is the error for a holder whose lock's key is gone from the server.
func (p Place) Lost(key string) error {
	return fmt.Errorf("%s: %w: %w: %q is gone: the lock has ended, was released, or has another holder", p.Package, fence.ErrStale, lockport.ErrLost, key)
}

// Holder returns the token of l, and sets view to the backend's view of l.
func (p Place) Holder(l *lockport.Lock, backend string, view any) (lockport.Token, error) {
	if !l.As(view) {
		if err := l.Err(); errors.Is(err, lockport.ErrLost) { // the driver's view may be gone too
			return 0, fmt.Errorf("%s: %w: %w", p.Package, fence.ErrStale, err)
		}
		return 0, fmt.Errorf("%s: RegisterLock needs a lock of the backend %s; for other locks, use Register with the token", p.Package, backend)
	}
	token, _ := l.Token()
	return token, nil
}

// Await calls request, which does not support contexts, and returns its answer, or ctx's error as soon as ctx ends. request may then still run.
func Await[T any](ctx context.Context, request func() (T, error)) (answer T, err error) {
	if err := ctx.Err(); err != nil {
		return answer, err
	}
	type reply struct {
		answer T
		err    error
	}
	done := make(chan reply, 1)
	go func() {
		answer, err := request()
		done <- reply{answer, err}
	}()
	select {
	case r := <-done:
		return r.answer, r.err
	case <-ctx.Done():
		return answer, ctx.Err()
	}
}
