package fencetest

import (
	"context"
	"errors"
	"testing"
	"time"
)

// prompt is how soon a call ends after its context, with room for a busy machine.
const prompt = 2 * time.Second

// Silencer is a network that can fall silent: see faultproxy.Proxy.
type Silencer interface {
	Freeze()
	Restore()
}

// Ends requires of each call that it returns soon after its context has ended, with the context's error: at once where that has ended before, and while
// the network is silent. It returns what the calls returned then.
func Ends(t *testing.T, network Silencer, calls map[string]func(ctx context.Context) error) map[string]error {
	silenced := make(map[string]error)
	for what, call := range calls {
		t.Run(what, func(t *testing.T) {
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			if err := call(ended); !errors.Is(err, context.Canceled) {
				t.Fatalf("with a context that had ended: %v", err)
			}

			network.Freeze()
			defer network.Restore()
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			done := make(chan error, 1)
			go func() { done <- call(ctx) }()
			select {
			case err := <-done:
				if silenced[what] = err; !errors.Is(err, context.DeadlineExceeded) {
					t.Fatalf("from the silent network: %v", err)
				}
			case <-time.After(prompt):
				t.Fatal("the call did not return")
			}
		})
	}
	return silenced
}
