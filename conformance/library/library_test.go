package library_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/conformance/library"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
)

// locks is a lock library: a mutex for each name.
func locks(release func(*sync.Mutex)) library.Client {
	var all sync.Map
	return library.Client{Close: func() error { return nil }, Take: func(_ context.Context, c library.Claim) (*library.Hold, error) {
		mu, _ := all.LoadOrStore(c.Name, new(sync.Mutex))
		if !mu.(*sync.Mutex).TryLock() {
			return nil, driver.ErrHeld
		}
		held := true // a claim's calls are one after the other
		return &library.Hold{Release: func(context.Context) error {
			was := held
			if held = false; was {
				release(mu.(*sync.Mutex))
			}
			return library.LostIf(!was, nil)
		}}, nil
	}}
}

// A sound library passes, and one that releases nothing fails. A TTL other than a fixed one is refused.
func TestDriver(t *testing.T) {
	for outcome, release := range map[conformance.Outcome]func(*sync.Mutex){
		conformance.Pass: (*sync.Mutex).Unlock, conformance.Fail: func(*sync.Mutex) {},
	} {
		client, ids := locks(release), []string{"exclusion/two-claims", "exclusion/two-backends"}
		if outcome == conformance.Pass {
			ids = append(ids, "capabilities/ttl")
		}
		report := conformance.Run(t.Context(), conformance.Config{Local: true, Open: func(context.Context, string) (driver.Backend, error) {
			return library.Driver(driver.Capabilities{Backend: "locks", Ends: driver.EndsProcess, FixedTTL: time.Second}, client), nil
		}}, conformance.Match(func(c conformance.Case) bool { return slices.Contains(ids, c.ID()) }))
		require.Len(t, report.Results, len(ids))
		for _, res := range report.Results {
			require.Equal(t, outcome, res.Outcome, res.Message())
		}
	}
}

// A claim whose outcome is unknown ends with its TTL. A TTL below MinTTL is refused. A Take without a Hold fails.
func TestUnknown(t *testing.T) {
	b := library.Driver(driver.Capabilities{MinTTL: time.Millisecond}, library.Client{Take: func(context.Context, library.Claim) (*library.Hold, error) {
		return nil, errors.New("the connection broke")
	}})
	req := driver.Request{Name: "n", Owner: "o", TTL: 200 * time.Millisecond}
	began := time.Now()
	require.ErrorIs(t, peer.ErrOf(b.TryAcquire(t.Context(), req)), driver.ErrUnknown)
	require.Eventually(t, func() bool { return b.Abandon(t.Context(), req) == nil }, 10*time.Second, time.Millisecond)
	require.GreaterOrEqual(t, time.Since(began), req.TTL)
	for _, bad := range []*library.Hold{nil, {}} {
		c := library.Driver(driver.Capabilities{}, library.Client{Take: func(context.Context, library.Claim) (*library.Hold, error) { return bad, nil }})
		require.ErrorContains(t, peer.ErrOf(c.TryAcquire(t.Context(), req)), "without Release")
	}
	req.TTL = 1
	require.ErrorIs(t, peer.ErrOf(b.TryAcquire(t.Context(), req)), driver.ErrRefused)
	require.ErrorIs(t, library.LostIf(true, nil), driver.ErrLost)
	require.ErrorIs(t, library.LostIf(true, io.EOF), io.EOF)
	require.NoError(t, library.LostIf(false, nil))
}

// Abandon is not certain before the call of the library has returned: the claim may still be granted.
func TestAbandonDuringACall(t *testing.T) {
	ended := false
	end := func(context.Context) error { ended = true; return nil }
	for _, undo := range []func(context.Context, library.Claim) error{nil, func(ctx context.Context, _ library.Claim) error { return end(ctx) }} {
		answer := make(chan struct{})
		b := library.Driver(driver.Capabilities{}, library.Client{Undo: undo, Take: func(context.Context, library.Claim) (*library.Hold, error) {
			<-answer
			ended = false
			return &library.Hold{Release: end}, nil
		}})
		req := driver.Request{Name: "n", Owner: "o", TTL: time.Second}
		returned := make(chan error)
		go func() { returned <- peer.ErrOf(b.TryAcquire(t.Context(), req)) }()
		require.Eventually(t, func() bool { return errors.Is(b.Abandon(t.Context(), req), driver.ErrUnknown) }, 10*time.Second, time.Millisecond)
		close(answer)
		require.NoError(t, <-returned)
		require.NoError(t, b.Abandon(t.Context(), req))
		require.True(t, ended)
	}
}

// A claim that was undone or released is forgotten: its loss is not told, and Abandon does not release it twice.
func TestEndedIsForgotten(t *testing.T) {
	for _, undo := range []bool{true, false} {
		gone, releases := make(chan struct{}), 0
		hold := &library.Hold{Lost: gone, Release: func(context.Context) error { releases++; return nil }}
		client := library.Client{
			Close: func() error { return nil },
			Take:  func(context.Context, library.Claim) (*library.Hold, error) { return hold, nil },
		}
		if undo {
			client.Undo = func(context.Context, library.Claim) error { return nil }
		}
		b := library.Driver(driver.Capabilities{}, client)
		req := driver.Request{Name: "n", Owner: "o", TTL: time.Second, Lost: func(error) { t.Error("told of the loss of a claim that had ended") }}
		lease := peer.Must(b.TryAcquire(t.Context(), req))(t)
		if !undo {
			require.NoError(t, lease.Release(t.Context()))
		}
		require.NoError(t, b.Abandon(t.Context(), req))
		close(gone)
		require.NoError(t, b.Close())
		require.Equal(t, map[bool]int{true: 0, false: 1}[undo], releases)
	}
}
