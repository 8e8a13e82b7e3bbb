package fencetest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/fence"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/lab/worker"
)

const (
	rounds   = 200              // of a run, concurrently: in each, a holder loses its lock without knowing and writes late
	longTTL  = 30 * time.Second // of locks that must not expire, even on a busy machine
	shortTTL = time.Second      // of locks that expire while the child is frozen
	patience = 30 * time.Second // bounds each step
)

// Holders write after they were stopped until their locks had expired. A fence must refuse each late write, and no update may be lost. Without a fence,
// the same run must lose some updates; this shows that it would detect a broken fence.
func lateHolders(f *fixture) {
	refused, lost := late(f.T, config{Place: f.Place, TTL: longTTL})
	require.True(f, refused == rounds && lost == 0, "%d of %d late writes were refused and %d updates lost", refused, rounds, lost)
	refused, lost = late(f.T, config{Place: f.Place, Bare: true, TTL: longTTL})
	require.True(f, refused == 0 && lost > 0, "without a fence %d late writes were refused and %d updates lost: the run proves nothing", refused, lost)
}

func late(t *testing.T, c config) (refused int, lost int64) {
	t.Helper()
	ctx := peer.Within(t, 4*patience)
	for i := range rounds {
		c.Names = append(c.Names, fmt.Sprintf("fencetest %s %d", rand.Text(), i))
	}
	theirs := c
	theirs.TTL = shortTTL
	child, err := lateWorker.Start(ctx, theirs)
	require.NoError(t, err)
	defer child.Kill()
	require.NoError(t, child.Freeze())
	ours, err := begin(ctx, c) // takes the locks as soon as the child has lost them
	require.NoError(t, err)
	defer ours.Close()

	written := 0
	write := func(third int) {
		t.Helper()
		c, err := ours.write(third*rounds/3, (third+1)*rounds/3)
		require.NoError(t, err)
		require.Zero(t, c.Refused, "writes of the lock's holder were refused")
		written += c.Written
	}
	write(0) // before the child's writes
	answer := child.Send(struct{}{})
	require.NoError(t, child.Thaw())
	write(1) // at the same time
	childs, err := answer(ctx)
	require.NoError(t, err)
	write(2) // after them
	lost = int64(written + childs.Written)
	for _, name := range c.Names {
		value, err := ours.Get(ctx, name)
		require.NoError(t, err)
		lost -= value
	}
	require.GreaterOrEqual(t, lost, int64(0), "updates that nobody made")
	return childs.Refused, lost
}

// config is the configuration of a party.
type config struct {
	Place
	Bare  bool // without a fence
	TTL   time.Duration
	Names []string
}

// counts are the outcomes of writes.
type counts struct{ Written, Refused int }

// lateWorker is the child. It reads before it is ready. Its only order is to write.
var lateWorker = worker.Kind[config, struct{}, counts]{Variable: "LOCKPORT_FENCETEST_WORKER"}

// party is one of the two writers: the child, or the test itself.
type party struct {
	*Store
	client *lockport.Client
	values []int64 // the values that were read; like writes, indexed as the names
	writes []Write
}

// begin takes all locks concurrently, registers, and reads.
func begin(ctx context.Context, c config) (*party, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*patience)
	defer cancel()
	store, err := open(ctx, c.Store)
	if err != nil {
		return nil, err
	}
	client, err := c.locks(ctx, c.TTL)
	if err != nil {
		return nil, err
	}
	p := &party{store, client, make([]int64, len(c.Names)), make([]Write, len(c.Names))}
	return p, errors.Join(worker.AtOnce(c.Names, func(i int, name string) error {
		for {
			err := p.take(ctx, c.Bare, i, name)
			if !errors.Is(err, lockport.ErrUnavailable) || ctx.Err() != nil { // a short TTL may end before a grant is known
				return err
			}
		}
	})...)
}

// take acquires the lock of one name, registers, and reads.
func (p *party) take(ctx context.Context, bare bool, i int, name string) error {
	l, err := p.client.Acquire(ctx, name)
	if err != nil {
		return err
	}
	token, _ := l.Token()
	if bare {
		p.writes[i] = func(ctx context.Context, value int64) error { return p.Bare(ctx, name, value) }
	} else {
		p.writes[i], err = p.Register(ctx, name, token, nil)
	}
	if err == nil {
		p.values[i], err = p.Get(ctx, name)
	}
	return err
}

// Close closes a party, which may have lost its locks.
func (p *party) Close() {
	_ = p.client.Close()
	p.Store.Close()
}

// write adds one to the values of the names from first to before end, as they were read. It does not check the locks first: a fence must catch what
// happens between such a check and the write.
func (p *party) write(first, end int) (c counts, all error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, err := range worker.AtOnce(p.writes[first:end], func(i int, write Write) error { return write(ctx, p.values[first+i]+1) }) {
		switch {
		case err == nil:
			c.Written++
		case errors.Is(err, fence.ErrStale):
			c.Refused++
		default:
			all = errors.Join(all, err)
		}
	}
	return c, all
}
