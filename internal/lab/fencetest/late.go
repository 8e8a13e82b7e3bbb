package fencetest

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"github.com/lockport/lockport/internal/lab/worker"
)

// Run is a run: who takes part, and where.
type Run struct {
	Kind         string // one of those that Main was given
	Store, Locks string // what its functions are called with

	// LateTTL is that of the locks that are lost, if Lose is nil. Default: 150 ms.
	LateTTL time.Duration
	// Lose, if not nil, is called while the worker is frozen. It has the server take away the worker's locks, which have these names, for example by
	// ending its sessions. Otherwise their TTL ends them.
	Lose func(ctx context.Context, names []string) error
}

// A run has rounds, many of them at once. In each round a holder loses its lock without knowing, and writes late.
const (
	// holdTTL is that of locks which are not to be lost, on a busy machine either.
	holdTTL = 30 * time.Second

	rounds  = 200
	atOnce  = 50
	batches = rounds / atOnce
)

// Refuses shows that the fence holds: in 200 rounds each late write is refused, and no update is lost.
func Refuses(t *testing.T, r Run) {
	t.Helper()
	refused, lost := r.do(t)
	if refused != rounds || lost != 0 {
		t.Errorf("%d of %d late writes were refused and %d updates lost: all must be refused, and none lost", refused, rounds, lost)
	}
}

// Loses shows that the run would find a fence that does not hold: r is the same kind of store without one.
func Loses(t *testing.T, r Run) {
	t.Helper()
	refused, lost := r.do(t)
	if refused != 0 || lost < 1 {
		t.Errorf("without a fence %d late writes were refused and %d updates lost: the run shows nothing", refused, lost)
	}
}

// Late runs r with each of the kinds, whose fences hold, and with one that has no fence.
func Late(t *testing.T, r Run, without string, kinds ...string) {
	for _, kind := range append(kinds, without) {
		t.Run(kind, func(t *testing.T) {
			if r.Kind = kind; kind == without {
				Loses(t, r)
			} else {
				Refuses(t, r)
			}
		})
	}
}

func (r Run) do(t *testing.T) (refused int, lost int64) {
	t.Helper()
	j := job{Kind: r.Kind, Store: r.Store, Locks: r.Locks, TTL: holdTTL}
	for i := range atOnce {
		j.Names = append(j.Names, fmt.Sprintf("fencetest %s %d", rand.Text(), i))
	}
	here, err := open(j)
	must(t, err)
	defer here.Close()
	if r.Lose == nil {
		j.TTL = cmp.Or(r.LateTTL, 150*time.Millisecond)
	}
	there, err := lateWorker.Start(t.Context(), j)
	must(t, err)
	defer there.Kill()

	for range batches {
		late, written := r.batch(t, here, there)
		refused += late.Refused
		lost += int64(late.Written + written)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, name := range j.Names {
		value, err := here.store.Value(ctx, name)
		must(t, err)
		lost -= value
	}
	if lost < 0 {
		t.Fatalf("%d updates are there that nobody made", -lost)
	}
	return refused, lost
}

// batch is a round on each of the names. It returns what became of the worker's late writes, and how many we wrote. A third of our own writes come before
// the worker's, a third after them, and the rest at the same time.
func (r Run) batch(t *testing.T, here *party, there *worker.Handle[string, counts]) (late counts, written int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	ours := func(c counts, err error) {
		t.Helper()
		must(t, err)
		if c.Refused > 0 {
			t.Fatalf("%d writes of the lock's holder were refused", c.Refused)
		}
	}
	write := func(third int) {
		t.Helper()
		c, err := here.write(third, 3)
		ours(c, err)
		written += c.Written
	}

	_, err := there.Ask(ctx, orderTake)
	must(t, err)
	must(t, there.Freeze())
	if r.Lose != nil {
		must(t, r.Lose(ctx, here.names))
	}
	ours(here.take()) // as soon as the worker's locks have ended
	write(0)
	answer := there.Send(orderWrite)
	must(t, there.Thaw())
	write(1)
	late, err = answer(ctx)
	must(t, err)
	write(2)
	here.release()
	return late, written
}
