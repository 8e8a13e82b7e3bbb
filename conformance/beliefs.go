package conformance

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/lockport/lockport"
)

// beliefs holds the holds of one name against each other, as goroutines of this process believe in them. A hold that was lost is not believed in any more,
// although its goroutine may not have looked yet.
type beliefs struct {
	inside atomic.Pointer[lockport.Lock]
	last   atomic.Uint64 // the last token
	holds  int           // those of hold: only the lock guards it
	losses atomic.Bool   // holds may be lost: that is no error, and none are counted
}

// enter begins a hold. A lock that is lost by the time that its goroutine gets to run is no hold: others may have had the name since.
func (b *beliefs) enter(l *lockport.Lock) error {
	other := b.inside.Swap(l)
	var two bool
	var otherToken lockport.Token
	if other != nil {
		otherToken, _ = other.Token()
		two = other.Valid()
	}
	token, ok := l.Token()
	before := b.last.Load()
	falls := ok && before >= uint64(token)
	if err := l.Err(); err != nil { // looked at after the others were seen: as long as it is valid, there is nobody after it
		b.inside.CompareAndSwap(l, other)
		return fmt.Errorf("a lock was lost before it could be used: %w", err)
	}
	switch {
	case two:
		return fmt.Errorf("two goroutines hold the name, with tokens %d and %d", otherToken, token)
	case falls:
		return fmt.Errorf("P2 fencing: token %d was given after token %d", token, before)
	case ok:
		b.last.CompareAndSwap(before, uint64(token)) // where that fails it was lost since, and somebody else came
	}
	return nil
}

// leave ends it, before its lock is released.
func (b *beliefs) leave(l *lockport.Lock) { b.inside.CompareAndSwap(l, nil) }

// hold believes in a lock for up to so long and releases it. What enter finds wrong is told, whatever becomes of the lock.
func (b *beliefs) hold(ctx context.Context, l *lockport.Lock, long time.Duration) error {
	err := b.enter(l)
	switch {
	case err == nil:
		if !b.losses.Load() {
			b.holds++
		}
		if long > 0 {
			<-time.After(rand.N(long))
		}
		err = l.Err()
		b.leave(l)
	case !errors.Is(err, lockport.ErrLost):
		return err
	}
	err = errors.Join(err, l.Release(ctx))
	if err == nil || errors.Is(err, lockport.ErrLost) && b.losses.Load() {
		return nil
	}
	return fmt.Errorf("a hold was lost: %w", err)
}
