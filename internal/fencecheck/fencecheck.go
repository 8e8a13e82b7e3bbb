// Package fencecheck has what the fences on servers share: how they write a token, and what they tell a holder whose token is not the registered one.
package fencecheck

import (
	"context"
	"fmt"
	"strconv"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/fence"
)

// Place is where a fence keeps the token of the latest holder.
type Place struct {
	Package string // that errors name
	Key     string
	Digits  int // of a token's text, padded with zeros, where the server compares texts; 0: no padding
}

// Padding is Digits for texts that sort as their numbers do: the greatest token has so many.
const Padding = 20

// Missing is the text of a token that is not there.
const Missing = ""

// Format is the text of a token.
func (p Place) Format(token lockport.Token) string {
	return fmt.Sprintf("%0*d", p.Digits, uint64(token))
}

// Parse reads the text of a token. false: it is none.
func (p Place) Parse(text string) (lockport.Token, bool) {
	n, err := strconv.ParseUint(text, 10, 64)
	return lockport.Token(n), err == nil && n > 0 && (p.Digits == 0 || len(text) == p.Digits)
}

// Explain says what failed where.
func (p Place) Explain(did string, err error) error {
	return fmt.Errorf("%s: %s at %q: %w", p.Package, did, p.Key, err)
}

// Refuse is the error for the holder of token, where the server has seen instead: a token's text, Missing, or something else.
func (p Place) Refuse(token lockport.Token, seen string) error {
	n, ok := p.Parse(seen)
	switch {
	case seen == Missing:
		return fmt.Errorf("%s: %w: no token is registered at %q any more, the fence was removed or its data were lost: register again if the lock is still held",
			p.Package, fence.ErrStale, p.Key)
	case !ok:
		return fmt.Errorf("%s: %q has no fencing token but something else: give the fence a place of its own", p.Package, p.Key)
	case n < token:
		return fmt.Errorf("%s: %w: token %d is registered at %q, which is older than %d: the fence's data were lost, register again if the lock is still held",
			p.Package, fence.ErrStale, n, p.Key, token)
	}
	return fmt.Errorf("%s: %w", p.Package, &fence.StaleError{Name: p.Key, Token: token, Seen: n})
}

// Lost is the error for a holder whose lock's own key is gone from the server.
func (p Place) Lost(key string) error {
	return fmt.Errorf("%s: %w: %w: %q is gone: the lock has ended, was released, or has another holder", p.Package, fence.ErrStale, lockport.ErrLost, key)
}

// Holder is the token of l, and in view the backend's own view of l.
func (p Place) Holder(l *lockport.Lock, backend string, view any) (lockport.Token, error) {
	if !l.As(view) {
		return 0, fmt.Errorf("%s: RegisterLock needs a lock of the backend %s: use Register with the token of any other", p.Package, backend)
	}
	token, _ := l.Token()
	return token, nil
}

// Await calls request, which knows no contexts, and returns its answer, or ctx's error as soon as ctx ends. The request may still go on then.
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
