package lockport

import (
	"context"
	"time"
)

// Hooks are called at the events of a Client, for traces and metrics. Nil fields cost nothing. They are called
// from any goroutine, and what they report waits for them (save Lost, which has a goroutine of its own), so they must be quick and must
// not call back into the Client.
type Hooks struct {
	// AcquireStart is called when Acquire or TryAcquire begins. The context that it returns, which must derive from
	// ctx, is given to AcquireDone.
	AcquireStart func(ctx context.Context, name string) context.Context
	// AcquireDone is called when Acquire or TryAcquire is about to return.
	AcquireDone func(ctx context.Context, e AcquireEvent)
	// Released is called when a hold was ended by Release or Close.
	Released func(e HoldEvent)
	// Lost is called when a hold was lost.
	Lost func(e HoldEvent)
	// Renewed is called when a renewal of a claim succeeded or failed.
	Renewed func(e RenewEvent)
}

// AcquireEvent describes the end of an acquisition.
type AcquireEvent struct {
	Name      string
	Wait      time.Duration // how long the call took
	Token     Token         // 0 if none
	HandedOff bool          // the claim came from another goroutine of this process, without a request
	Err       error         // nil if acquired
}

// HoldEvent describes the end of a hold.
type HoldEvent struct {
	Name  string
	Held  time.Duration // how long it was held
	Token Token         // 0 if none
	Err   error         // Released: what Release returns; Lost: the reason
}

// RenewEvent describes one renewal of a claim.
type RenewEvent struct {
	Name    string
	Latency time.Duration // how long the request took, shared by all claims of a batch
	Left    time.Duration // the validity that was left when the renewal was sent
	Err     error         // nil if it succeeded
}
