package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/internal/lab/servers"
)

// newClient is a client of a server, closed when t ends.
func newClient(t testing.TB, dsn string, o Options) *lockport.Client {
	t.Helper()
	c, err := New(configFor(t, dsn), o, lockport.Logger(nil))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func acquire(t testing.TB, c *lockport.Client, name string) *lockport.Lock {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*within)
	defer cancel()
	l, err := c.Acquire(ctx, name)
	require.NoError(t, err)
	return l
}

func lost(t testing.TB, l *lockport.Lock, limit time.Duration) {
	t.Helper()
	select {
	case <-l.Lost():
		require.ErrorIs(t, l.Err(), lockport.ErrLost)
	case <-time.After(limit):
		t.Fatal("the holder was not told that its lock is lost")
	}
}

func token(t testing.TB, l *lockport.Lock) lockport.Token {
	t.Helper()
	token, ok := l.Token()
	require.True(t, ok)
	return token
}

// holderOf is the session that has a lock; 0: nobody.
func holderOf(t testing.TB, m *servers.MariaDB, name string) int64 {
	t.Helper()
	key, err := layout{prefix: defaultPrefix}.key(name)
	require.NoError(t, err)
	var holder *int64
	require.NoError(t, adminOf(t, m).QueryRowContext(t.Context(), "SELECT IS_USED_LOCK(?)", string(key)).Scan(&holder))
	if holder == nil {
		return 0
	}
	return *holder
}

// blockedIn is a session that waits for a lock; 0: there is none.
func blockedIn(t testing.TB, admin *sql.DB) (id int64) {
	t.Helper()
	err := admin.QueryRowContext(t.Context(), "SELECT ID FROM information_schema.PROCESSLIST WHERE STATE='User lock' LIMIT 1").Scan(&id)
	if !errors.Is(err, sql.ErrNoRows) {
		require.NoError(t, err)
	}
	return id
}

// TestKillWhileHolding: the holder is told, all locks of the session are lost, others of the process are not, and the next claim is made on a new session.
func TestKillWhileHolding(t *testing.T) {
	m := servers.SharedMariaDB(t)
	c, other := newClient(t, m.DSN(), Options{TTL: time.Minute}), newClient(t, m.DSN(), Options{TTL: time.Minute})
	names := []string{newName(), newName(), newName()}
	var locks []*lockport.Lock
	for _, name := range names {
		locks = append(locks, acquire(t, c, name))
	}
	bystander := acquire(t, other, newName())
	exec(t, adminOf(t, m), "KILL %d", holderOf(t, m, names[0]))
	for i, l := range locks {
		lost(t, l, within)
		next := acquire(t, other, names[i])
		require.Greater(t, token(t, next), token(t, l))
		require.ErrorIs(t, l.Release(t.Context()), lockport.ErrLost)
		require.NoError(t, next.Release(t.Context()))
		require.NoError(t, acquire(t, c, names[i]).Release(t.Context()))
	}
	require.NoError(t, bystander.Err())
	require.NoError(t, bystander.Release(t.Context()))
}

// TestKillWhileWaiting: who waits does not notice that the session on which it does was killed.
func TestKillWhileWaiting(t *testing.T) {
	m := servers.NeedMariaDB(t, servers.MariaDBOptions{})
	c, other := newClient(t, m.DSN(), Options{}), newClient(t, m.DSN(), Options{})
	admin := adminOf(t, m)
	name := newName()
	l := acquire(t, c, name)
	got := make(chan *lockport.Lock, 1)
	go func() {
		l, err := other.Acquire(context.Background(), name)
		if err == nil {
			got <- l
		}
	}()
	for range 3 {
		var id int64
		require.Eventually(t, func() bool { id = blockedIn(t, admin); return id != 0 }, within, time.Millisecond)
		exec(t, admin, "KILL %d", id)
		require.Eventually(t, func() bool {
			var left int
			err := admin.QueryRowContext(t.Context(), fmt.Sprint("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID=", id)).Scan(&left)
			return err == nil && left == 0
		}, within, time.Millisecond)
	}
	require.Empty(t, got)
	require.NoError(t, l.Release(t.Context()))
	select {
	case next := <-got:
		require.Greater(t, token(t, next), token(t, l))
		require.NoError(t, next.Release(t.Context()))
	case <-time.After(within):
		t.Fatal("who waits did not get the lock")
	}
}

// TestServerKilledAndRestarted: holders are told, tokens rise, those who wait get their turn.
func TestServerKilledAndRestarted(t *testing.T) {
	m := servers.NeedMariaDB(t, servers.MariaDBOptions{Durable: true})
	c, other := newClient(t, m.DSN(), Options{}), newClient(t, m.DSN(), Options{})
	name := newName()
	last := lockport.Token(0)
	for range 3 {
		l := acquire(t, c, name)
		admin := adminOf(t, m)
		require.Greater(t, token(t, l), last)
		last = token(t, l)
		got := make(chan *lockport.Lock, 1)
		var waiting sync.WaitGroup
		waiting.Go(func() {
			if l, err := other.Acquire(context.Background(), name); err == nil {
				got <- l
			}
		})
		require.Eventually(t, func() bool { return blockedIn(t, admin) != 0 }, within, time.Millisecond)
		require.NoError(t, m.Kill())
		lost(t, l, within)
		require.NoError(t, m.Restart(t.Context()))
		waiting.Wait()
		require.NotEmpty(t, got)
		next := <-got
		require.Greater(t, token(t, next), last)
		last = token(t, next)
		require.NoError(t, next.Release(t.Context()))
	}
}

// TestHalfOpen: the holder hears nothing more and knows in time that its hold has ended; the server ends the session of a holder that it does not
// hear, after the TTL.
func TestHalfOpen(t *testing.T) {
	m := servers.SharedMariaDB(t)
	proxy, dsn, _ := proxyFor(t, m)
	c, other := newClient(t, dsn, Options{TTL: testTTL}), newClient(t, m.DSN(), Options{TTL: testTTL})
	name := newName()
	l := acquire(t, c, name)
	proxy.Freeze()
	next := acquire(t, other, name)
	require.ErrorIs(t, l.Err(), lockport.ErrLost, "somebody else has the lock")
	require.Greater(t, token(t, next), token(t, l))
	require.NoError(t, next.Release(t.Context()))
	proxy.Restore()
	require.Eventually(t, func() bool {
		l, err := c.TryAcquire(t.Context(), name)
		return err == nil && l.Release(t.Context()) == nil
	}, within, 10*time.Millisecond, "the client goes on once the server is heard again")
}

// TestHoldLongerThanWaitTimeout: whatever the server's own wait_timeout, a hold is kept for as long as its process speaks.
func TestHoldLongerThanWaitTimeout(t *testing.T) {
	m := servers.NeedMariaDB(t, servers.MariaDBOptions{Settings: map[string]string{"wait_timeout": "1", "interactive_timeout": "1"}})
	c, other := newClient(t, m.DSN(), Options{TTL: time.Second}), newClient(t, m.DSN(), Options{})
	name := newName()
	l := acquire(t, c, name)
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		require.NoError(t, l.Err())
		_, err := other.TryAcquire(t.Context(), name)
		require.ErrorIs(t, err, lockport.ErrHeld)
	}
	require.NoError(t, l.Release(t.Context()))
	// An idle client's session is replaced.
	time.Sleep(1500 * time.Millisecond)
	require.NoError(t, acquire(t, c, name).Release(t.Context()))
}

// TestManyLocksFewConnections: 1,000 held locks and 500 that are waited for take one connection for each process and Blockers more.
func TestManyLocksFewConnections(t *testing.T) {
	m := servers.NeedMariaDB(t, servers.MariaDBOptions{})
	const held, waiters, blockers = 1000, 500, 3
	holder, waiter := newClient(t, m.DSN(), Options{Blockers: blockers}), newClient(t, m.DSN(), Options{Blockers: blockers})
	base := newName()
	locks := make([]*lockport.Lock, held)
	var all sync.WaitGroup
	for i := range held {
		all.Go(func() {
			var err error
			if locks[i], err = holder.Acquire(t.Context(), base+strconv.Itoa(i)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	got := make(chan *lockport.Lock, waiters)
	for i := range waiters {
		all.Go(func() {
			l, err := waiter.Acquire(t.Context(), base+strconv.Itoa(i))
			if err != nil {
				t.Error(err)
				return
			}
			got <- l
		})
	}
	admin := adminOf(t, m)
	most := func() (n, blocked int) {
		require.NoError(t, admin.QueryRowContext(t.Context(),
			"SELECT COUNT(*),COUNT(IF(STATE='User lock',1,NULL)) FROM information_schema.PROCESSLIST WHERE USER='lockport'").Scan(&n, &blocked))
		return n, blocked
	}
	require.Eventually(t, func() bool { _, blocked := most(); return blocked == blockers }, within, 5*time.Millisecond)
	for range 20 {
		n, _ := most()
		require.LessOrEqual(t, n, 1+1+blockers, "one for the locks that are held, one for the process that waits, and its blockers")
		time.Sleep(20 * time.Millisecond)
	}
	for _, l := range locks {
		require.NoError(t, l.Err())
		require.NoError(t, l.Release(t.Context()))
	}
	all.Wait()
	for range waiters {
		l := <-got
		require.NoError(t, l.Release(t.Context()))
	}
	n, _ := most()
	require.LessOrEqual(t, n, 1+1+blockers)
}

// TestNamesDifferByCase: also where the server's own names of locks do not.
func TestNamesDifferByCase(t *testing.T) {
	m := servers.SharedMariaDB(t)
	a, b := newClient(t, m.DSN(), Options{}), newClient(t, m.DSN(), Options{})
	base := newName()
	var locks []*lockport.Lock
	for _, name := range []string{base + "name", base + "Name", base + "NAME", base + "namé", base + "name "} {
		locks = append(locks, acquire(t, a, name))
		_, err := b.TryAcquire(t.Context(), name)
		require.ErrorIs(t, err, lockport.ErrHeld)
	}
	for _, l := range locks {
		require.NoError(t, l.Release(t.Context()))
	}
}

// TestTableLocked: a backup that locks tables keeps no token from being drawn for longer than a second, and costs no hold.
func TestTableLocked(t *testing.T) {
	m := servers.SharedMariaDB(t)
	c := newClient(t, m.DSN(), Options{TTL: 5 * time.Second})
	l := acquire(t, c, newName())
	admin, err := adminOf(t, m).Conn(t.Context())
	require.NoError(t, err)
	defer func() { _ = admin.Close() }()
	_, err = admin.ExecContext(t.Context(), "FLUSH TABLES WITH READ LOCK")
	require.NoError(t, err)
	name := newName()
	for range 6 { // longer than the TTL
		_, err = c.TryAcquire(t.Context(), name)
		require.ErrorIs(t, err, lockport.ErrUnavailable)
		require.Zero(t, holderOf(t, m, name), "what was taken was given back")
	}
	require.NoError(t, l.Err())
	_, err = admin.ExecContext(t.Context(), "UNLOCK TABLES")
	require.NoError(t, err)
	require.NoError(t, acquire(t, c, name).Release(t.Context()))
	require.NoError(t, l.Release(t.Context()))
}
