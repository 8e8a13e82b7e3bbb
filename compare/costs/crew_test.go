package costs

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/faults"
	crew "github.com/lockport/lockport/internal/lab/worker"
)

// someone is a worker on a folder.
func someone(t *testing.T) *clerk {
	t.Helper()
	if testing.Short() {
		t.Skip("starts processes")
	}
	c, err := kind.Start(t.Context(), posting{URL: "file://" + t.TempDir(), TTL: ownTTL})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func TestWorkerThatCannotOpen(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	before := children(t)
	_, err := kind.Start(t.Context(), posting{URL: "lockd:", TTL: ownTTL})
	require.ErrorContains(t, err, `unknown scheme "lockd"`)
	_, err = kind.StartAll(t.Context(), posting{URL: "lockd:", TTL: ownTTL}, 3)
	require.ErrorContains(t, err, `unknown scheme "lockd"`)
	requireNoMore(t, before)
}

func TestWorkerThatDies(t *testing.T) {
	c := someone(t)
	_, err := c.Ask(t.Context(), order{Do: doAcquire, Name: "a", For: waitLimit})
	require.NoError(t, err)
	await := c.Send(order{Do: doAcquire, Name: "a", For: waitLimit}) // for itself
	c.Kill()
	_, err = await(t.Context())
	require.ErrorContains(t, err, "a client's process has ended")
	_, err = c.Ask(t.Context(), order{Do: doPing})
	require.Error(t, err)
}

func TestOrders(t *testing.T) {
	c := someone(t)
	_, err := c.Ask(t.Context(), order{Do: "dance"})
	require.EqualError(t, err, `unknown order "dance"`)
	_, err = c.Ask(t.Context(), order{Do: doRelease, Name: "never"})
	require.EqualError(t, err, `"never" is not held`)
	_, err = c.Ask(t.Context(), order{Do: doWait, Name: "a", Direct: true, Goroutines: 1})
	require.ErrorContains(t, err, "no way of its own to wait")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = c.Ask(ctx, order{Do: doCycle, Name: "a", Most: 1 << 30, For: time.Hour})
	require.ErrorIs(t, err, context.Canceled)
}

// Two processes tell the time alike: what one does before the other has the earlier instant.
func TestClockIsShared(t *testing.T) {
	c := someone(t)
	for range 20 {
		before := faults.Now()
		a, err := c.Ask(t.Context(), order{Do: doAcquire, Name: "a", For: waitLimit})
		require.NoError(t, err)
		require.GreaterOrEqual(t, a.At, before)
		require.LessOrEqual(t, a.At, faults.Now())
		_, err = c.Ask(t.Context(), order{Do: doRelease, Name: "a"})
		require.NoError(t, err)
	}
}

// A worker that is asked to end releases what it holds, and who waits gives up.
func TestWorkerEndsInOrder(t *testing.T) {
	url := "file://" + t.TempDir()
	if testing.Short() {
		t.Skip("starts processes")
	}
	both, err := kind.StartAll(t.Context(), posting{URL: url, TTL: ownTTL}, 2)
	require.NoError(t, err)
	_, err = both[0].Ask(t.Context(), order{Do: doAcquire, Name: "a", For: waitLimit})
	require.NoError(t, err)
	_, err = both[1].Ask(t.Context(), order{Do: doWait, Name: "a", Goroutines: 3})
	require.NoError(t, err)
	began := time.Now()
	both[1].Close()
	require.Less(t, time.Since(began), crew.CloseTime, "it had to be killed")
	require.True(t, both[1].State().Success())
	both[0].Close()
	require.True(t, both[0].State().Success())
}

// Ctrl-C reaches every process of a terminal: a worker goes on until its parent has had it release what it holds.
func TestWorkerOutlivesCtrlC(t *testing.T) {
	c := someone(t)
	_, err := c.Ask(t.Context(), order{Do: doAcquire, Name: "a", For: waitLimit})
	require.NoError(t, err)
	require.NoError(t, c.Signal(os.Interrupt))
	_, err = c.Ask(t.Context(), order{Do: doRelease, Name: "a"})
	require.NoError(t, err)
	c.Close()
	require.True(t, c.State().Success())
}
