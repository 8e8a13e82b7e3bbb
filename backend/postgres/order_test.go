package postgres

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/session"
)

// A batch takes each lock before it draws its token, or the last would have a token from before others had the lock.
func TestBatchesDrawTokensInTheOrderOfTheirLocks(t *testing.T) {
	t.Parallel()
	const keys = 128
	s := serverAt(t, with(t, database(t).URL(), "ttl", "10s"))
	one, _ := dialled(t, s)
	many, _ := dialled(t, s)
	var newest uint64 // of the last key, written and read by who has it
	stop, ended := make(chan struct{}), make(chan struct{})
	wrong := ""
	takes := func(who string, token uint64) {
		if token <= newest {
			wrong = fmt.Sprintf("%s got token %d after %d", who, token, newest)
		}
		newest = max(newest, token)
	}
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			default:
			}
			if o := op(session.Try, keys); askQuietly(one, o) == nil && o.OK {
				takes("one", o.Token)
				_ = askQuietly(one, op(session.Free, keys))
			}
		}
	}()
	for range 500 {
		var tries, frees []*session.Op
		for k := range int64(keys) {
			tries = append(tries, op(session.Try, k+1))
		}
		ask(t, many, tries...)
		if last := tries[keys-1]; last.OK {
			takes("many", last.Token)
		}
		for _, o := range tries {
			if o.OK {
				frees = append(frees, &session.Op{Kind: session.Free, Key: o.Key})
			}
		}
		ask(t, many, frees...)
	}
	close(stop)
	<-ended
	require.Empty(t, wrong)
}

// askQuietly is ask for another goroutine than the test's.
func askQuietly(c *conn, ops ...*session.Op) error {
	done := make(chan error, 1)
	c.Do(context.Background(), ops, func(err error) { done <- err })
	return <-done
}

// Who awaits a key that cannot be awaited just now is not deaf for others.
func TestAwaitThatFailsMakesNobodyDeaf(t *testing.T) {
	t.Parallel()
	p := database(t)
	c, _ := dialled(t, serverAt(t, with(t, p.URL(), "ttl", "2s")))
	hi, lo := side(1)
	busy := admin(t, p.URL())
	execute(t, busy, `SELECT pg_advisory_lock($1::int, $2::int)`, hi, lo)
	await := op(session.Await, 1)
	require.NoError(t, askQuietly(c, await))
	require.ErrorIs(t, await.Err, driver.ErrUnavailable, "not: this server cannot tell")
	execute(t, busy, `SELECT pg_advisory_unlock_all()`)
	await = op(session.Await, 1)
	ask(t, c, await)
	require.True(t, await.OK)
}

// What was answered is forgotten, also while something is always under way.
func TestStatementsAreForgotten(t *testing.T) {
	t.Parallel()
	p := database(t)
	s := serverAt(t, with(t, p.URL(), "ttl", "10s"))
	a, _ := dialled(t, s)
	b, told := dialled(t, s)
	go func() {
		for range told.freed { //nolint:revive // somebody must take them
		}
	}()
	ask(t, b, op(session.Await, 1), op(session.Await, 2))
	ask(t, a, op(session.Try, 1))
	most := 0
	for i := range int64(5 * manySteps) {
		ask(t, a, op(session.Free, 1+i%2), op(session.Try, 1+(i+1)%2))
		a.line.Lock()
		most = max(most, len(a.steps))
		a.line.Unlock()
	}
	require.LessOrEqual(t, most, manySteps+8)
}

// A wait, too, ends with a server that says nothing any more.
func TestWaitEndsWithASilentServer(t *testing.T) {
	t.Parallel()
	p := database(t)
	c, told := dialled(t, serverAt(t, with(t, p.URL(), "ttl", "1s")))
	execute(t, admin(t, p.URL()), `SELECT pg_advisory_lock(1)`)
	done := make(chan error, 1)
	c.Wait(gone(), op(session.Try, 1), func(err error) { done <- err })
	c.line.Lock()
	c.line.Again(time.Now().Add(-waitLockTimeout - c.server.ttl - time.Second)) // as if it had been that long
	c.line.Unlock()
	c.line.Overdue()
	require.ErrorContains(t, receive(t, done), "has not answered")
	require.Error(t, receive(t, told.ended))
}
