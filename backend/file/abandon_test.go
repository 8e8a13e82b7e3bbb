package file

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
)

// A claim whose context ends during the attempt, and that is abandoned then, leaves nothing: Abandon waits for the attempt, and
// that gives up what it was granted.
func TestAbandonDuringAttempt(t *testing.T) {
	for _, queue := range []bool{false, true} {
		dir := t.TempDir()
		b, other := newBackend(t, dir), newBackend(t, dir)
		req := driver.Request{Name: "x", Owner: goldenOwner, Queue: queue}
		theirs := driver.Request{Name: "x", Owner: goldenOwner + "2"}
		if queue { // the attempt ends in the queue
			_, err := other.TryAcquire(t.Context(), theirs)
			require.NoError(t, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		p, l, err := b.begin(ctx, req)
		require.NoError(t, err)
		require.Nil(t, l)
		l, err = b.attempt(req, p)
		file := p.file
		if l != nil {
			file = l.file
		}
		require.Equal(t, queue, err != nil)
		cancel()

		short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		require.ErrorIs(t, b.Abandon(short, req), driver.ErrUnknown)
		cancel()
		abandoned := make(chan error, 1)
		go func() { abandoned <- b.Abandon(context.Background(), req) }()
		require.Never(t, func() bool { return len(abandoned) > 0 }, 20*time.Millisecond, time.Millisecond)
		require.ErrorIs(t, b.finish(ctx, req, p, l, err), context.Canceled)
		require.NoError(t, <-abandoned)
		_, err = file.Stat()
		require.ErrorIs(t, err, os.ErrClosed)
		require.Empty(t, b.held)
		require.Empty(t, b.waiting)

		require.NoError(t, other.Abandon(t.Context(), theirs))
		_, err = other.TryAcquire(t.Context(), theirs)
		require.NoError(t, err)
	}
}

// A backend that is closed during an attempt keeps nothing of it.
func TestCloseDuringAttempt(t *testing.T) {
	b := newBackend(t, t.TempDir())
	require.NoError(t, b.dir.prepare())
	req := driver.Request{Name: "x", Owner: goldenOwner}
	p, _, err := b.begin(t.Context(), req)
	require.NoError(t, err)
	l, err := b.attempt(req, p)
	require.NoError(t, err)
	require.NoError(t, b.Close())
	require.ErrorIs(t, b.finish(t.Context(), req, p, l, err), driver.ErrRefused)
	f, err := openLock(filepath.Join(b.dir.path, FileName("x")))
	require.NoError(t, err)
	defer f.Close()
	locked, err := tryFlock(f)
	require.NoError(t, err)
	require.True(t, locked)
}
