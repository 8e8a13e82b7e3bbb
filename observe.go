package lockport

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// Hooks are called on the events of a Client, for traces and metrics. Nil fields cost nothing. Hooks run on any goroutine and must not call back into
// the Client. The operation that they report waits for them, so they must be quick; only Lost, and Released at Close and Detach, have their own
// goroutines. A panic of a hook ends the program, unless the hook runs on the caller's goroutine; those of AcquireAll and Set.Release do not.
type Hooks struct {
	// AcquireStart is called when Acquire, TryAcquire or Attach begins; e has only Backend and Name. The returned context must derive from ctx.
	// AcquireDone and the HoldEvent get it.
	AcquireStart func(ctx context.Context, e AcquireEvent) context.Context
	// AcquireDone is called when Acquire, TryAcquire or Attach is about to return.
	AcquireDone func(ctx context.Context, e AcquireEvent)
	// Released is called when a hold was ended by Release, Detach or Close.
	Released func(e HoldEvent)
	// Lost is called when a hold was lost.
	Lost func(e HoldEvent)
	// Renewed is called when a renewal of a claim succeeded or failed.
	Renewed func(e RenewEvent)
}

// AcquireEvent describes the end of an acquisition.
type AcquireEvent struct {
	Backend   string // "redis"
	Name      string
	Wait      time.Duration // how long the call took
	Token     Token         // 0 if none
	HandedOff bool          // the claim was made for another hold of this process, and needed no request
	Err       error         // nil if acquired
}

// HoldEvent describes the end of a hold.
type HoldEvent struct {
	Context context.Context // what AcquireStart returned, for its values: it may have ended
	Backend string          // "redis"
	Name    string
	Held    time.Duration // how long it was held
	Token   Token         // 0 if none
	Err     error         // Released: what Release returns; Lost: the reason
}

// RenewEvent describes one renewal of a claim.
type RenewEvent struct {
	Backend string // "redis"
	Name    string
	TTL     time.Duration
	Latency time.Duration // how long the request took, shared by all claims of a batch
	Left    time.Duration // the validity left when the renewal was sent, less the margin; about 0.6 TTL if none failed before
	Err     error         // nil if it succeeded
}

// word is what metrics call an error.
type word struct {
	err  error
	word string
}

// wordFor is the word of the first of words that err matches.
func wordFor(err error, words []word, other string) string {
	for _, w := range words {
		if errors.Is(err, w.err) {
			return w.word
		}
	}
	return other
}

var outcomes = []word{
	{nil, "acquired"}, {context.Canceled, "canceled"}, {ErrUnavailable, "unavailable"}, {context.DeadlineExceeded, "timeout"}, {ErrHeld, "held"},
	{ErrRefused, "refused"}, {ErrClosed, "closed"}, {ErrLost, "lost"},
}

// Outcome is Err in one word, for metrics: "acquired", "held" (TryAcquire only), "timeout" (the lock was held, perhaps by this client, until the
// context's deadline), "canceled", "unavailable" (even if that lasted until the deadline), "refused", "closed", "lost" (Reenter and Attach only) or "invalid".
func (e AcquireEvent) Outcome() string { return wordFor(e.Err, outcomes, "invalid") }

var reasons = []word{{ErrSilence, "silence"}, {ErrMaxHold, "max_hold"}, {errOuterReleased, "outer_released"}, {ErrLost, "removed"}}

// LossReasons returns every word of HoldEvent.Reason, for metrics whose counters begin at zero.
func LossReasons() []string {
	words := make([]string, len(reasons))
	for i, r := range reasons {
		words[i] = r.word
	}
	return words
}

// Reason is why a hold was lost, in one word, for metrics: "silence" (ErrSilence), "max_hold" (ErrMaxHold), "outer_released" (see Reenter), or
// "removed" (the server no longer had it).
func (e HoldEvent) Reason() string { return wordFor(e.Err, reasons, "removed") }

// reportAcquiring tells the hooks that an acquisition begins, and returns its context.
func (c *Client) reportAcquiring(ctx context.Context, name string) context.Context {
	for _, h := range c.cfg.hooks {
		if h.AcquireStart != nil {
			ctx = h.AcquireStart(ctx, AcquireEvent{Backend: c.caps.Backend, Name: name})
		}
	}
	return ctx
}

// reportAcquired tells the hooks how the acquisition that began at start ended. If one panics, nobody gets l, so it is released.
func (c *Client) reportAcquired(ctx context.Context, name string, start time.Time, l *Lock, err error) {
	e := AcquireEvent{Backend: c.caps.Backend, Name: name, Wait: time.Since(start), Err: err}
	if l != nil {
		e.Token, e.HandedOff = l.token, l != &l.claim.first
		defer func() {
			if l != nil {
				(&Set{locks: []*Lock{l}}).undo(ctx)
			}
		}()
	}
	for _, h := range c.cfg.hooks {
		if h.AcquireDone != nil {
			h.AcquireDone(ctx, e)
		}
	}
	l = nil
}

// observe keeps the context of w, which acquires l, for the hooks. The mutex is held.
func (l *Lock) observe(w *waiter) {
	if len(l.claim.client.cfg.hooks) > 0 {
		l.ctx = w.ctx
	}
}

// event describes the end of l, at now.
func (l *Lock) event(now time.Duration, err error) HoldEvent {
	return HoldEvent{Context: l.ctx, Backend: l.claim.client.caps.Backend, Name: l.Name(), Held: now - l.acquired, Token: l.token, Err: err}
}

// reportReleased tells the hooks that a hold has ended without a loss.
func (c *Client) reportReleased(e HoldEvent) {
	for _, h := range c.cfg.hooks {
		if h.Released != nil {
			h.Released(e)
		}
	}
}

// reportLost tells the logger and the hooks that a hold was lost.
func (c *Client) reportLost(e HoldEvent) {
	c.logger().LogAttrs(c.ctx, slog.LevelWarn, "lockport: lock lost", slog.String("backend", e.Backend), slog.String("name", e.Name),
		slog.Duration("held", e.Held.Round(time.Millisecond)), slog.Any("error", e.Err))
	for _, h := range c.cfg.hooks {
		if h.Lost != nil {
			h.Lost(e)
		}
	}
}
