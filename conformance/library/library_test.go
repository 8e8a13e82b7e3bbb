package library_test

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/conformance/library"
	"github.com/lockport/lockport/driver"
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

// A sound library passes, and one that releases nothing fails.
func TestDriver(t *testing.T) {
	for outcome, release := range map[conformance.Outcome]func(*sync.Mutex){
		conformance.Pass: (*sync.Mutex).Unlock, conformance.Fail: func(*sync.Mutex) {},
	} {
		client := locks(release)
		report := conformance.Run(t.Context(), conformance.Config{Local: true, Open: func(context.Context, string) (driver.Backend, error) {
			return library.Driver(driver.Capabilities{Backend: "locks", Ends: driver.EndsProcess}, client), nil
		}}, conformance.Match(func(c conformance.Case) bool {
			return c.ID() == "contract/release" || c.ID() == "exclusion/two-backends"
		}))
		require.Len(t, report.Results, 2)
		for _, res := range report.Results {
			require.Equal(t, outcome, res.Outcome, res.Message())
		}
	}
}

// A claim whose outcome is unknown ends with its TTL. A TTL below MinTTL is refused.
func TestUnknown(t *testing.T) {
	b := library.Driver(driver.Capabilities{MinTTL: time.Millisecond}, library.Client{Take: func(context.Context, library.Claim) (*library.Hold, error) {
		return nil, errors.New("the connection broke")
	}})
	req := driver.Request{Name: "n", Owner: "o", TTL: 200 * time.Millisecond}
	began := time.Now()
	_, err := b.TryAcquire(t.Context(), req)
	require.ErrorIs(t, err, driver.ErrUnknown)
	require.Eventually(t, func() bool { return b.Abandon(t.Context(), req) == nil }, 10*time.Second, time.Millisecond)
	require.GreaterOrEqual(t, time.Since(began), req.TTL)
	req.TTL = 1
	_, err = b.TryAcquire(t.Context(), req)
	require.ErrorIs(t, err, driver.ErrRefused)
	require.ErrorIs(t, library.LostIf(true, nil), driver.ErrLost)
	require.ErrorIs(t, library.LostIf(true, io.EOF), io.EOF)
	require.NoError(t, library.LostIf(false, nil))
}

// A released claim is forgotten, and Abandon of it does not call the library again.
func TestReleasedIsForgotten(t *testing.T) {
	releases := 0
	hold := &library.Hold{Abort: func() { t.Error("a released hold was kept until Close") }, Release: func(context.Context) error {
		releases++
		return nil
	}}
	b := library.Driver(driver.Capabilities{}, library.Client{Close: func() error { return nil }, Take: func(context.Context, library.Claim) (*library.Hold, error) {
		return hold, nil
	}})
	req := driver.Request{Name: "n", Owner: "o", TTL: time.Second}
	lease, err := b.TryAcquire(t.Context(), req)
	require.NoError(t, err)
	require.NoError(t, lease.Release(t.Context()))
	require.NoError(t, b.Abandon(t.Context(), req))
	require.Equal(t, 1, releases)
	require.NoError(t, b.Close())
}
