package mysql

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/servers"
)

// newClient is a client of a server, closed when t ends.
func newClient(t testing.TB, dsn string, o Options) *lockport.Client {
	t.Helper()
	c, err := New(poolFor(t, dsn), o, lockport.Logger(nil))
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

// awaited is what c gets of name.
func awaited(c *lockport.Client, name string) <-chan *lockport.Lock {
	got := make(chan *lockport.Lock, 1)
	go func() {
		if l, err := c.Acquire(context.Background(), name); err == nil {
			got <- l
		}
	}()
	return got
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

// TestKillWhileHolding: the holder is told in the time that is stated although its session is idle, all locks of the session are lost, others of the process are
// not, and the next claim is made on a new session.
func TestKillWhileHolding(t *testing.T) {
	m := servers.SharedMariaDB(t)
	c, other := newClient(t, m.DSN(), Options{TTL: time.Minute}), newClient(t, m.DSN(), Options{TTL: time.Minute})
	names := []string{newName(), newName(), newName()}
	var locks []*lockport.Lock
	for _, name := range names {
		locks = append(locks, acquire(t, c, name))
	}
	bystander := acquire(t, other, newName())
	id := holderOf(t, m, names[0])
	began := time.Now()
	exec(t, adminOf(t, m), "KILL %d", id)
	for i, l := range locks {
		lost(t, l, within)
		require.Less(t, time.Since(began), 2*time.Second, "far less than a third of the TTL")
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
	got := awaited(other, name)
	for range 3 {
		var id int64
		require.Eventually(t, func() bool { id = blockedIn(t, admin); return id != 0 }, within, time.Millisecond)
		exec(t, admin, "KILL %d", id)
		require.Eventually(t, func() bool {
			return ask(t, admin, "SELECT ID FROM information_schema.PROCESSLIST WHERE ID=%d", id) == 0
		}, within, time.Millisecond)
	}
	require.Empty(t, got)
	require.NoError(t, l.Release(t.Context()))
	next := result(t, got)
	require.Greater(t, token(t, next), token(t, l))
	require.NoError(t, next.Release(t.Context()))
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
		got := awaited(other, name)
		require.Eventually(t, func() bool { return blockedIn(t, admin) != 0 }, within, time.Millisecond)
		require.NoError(t, m.Kill())
		lost(t, l, within)
		require.NoError(t, m.Restart(t.Context()))
		next := result(t, got)
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
	count := func(more string) int64 {
		return ask(t, admin, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER='lockport'%s", more)
	}
	require.Eventually(t, func() bool { return count(" AND STATE='User lock'") == blockers }, within, 5*time.Millisecond)
	for range 20 {
		require.LessOrEqual(t, count(""), int64(1+1+blockers), "one for the locks that are held, one for the process that waits, and its blockers")
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
	require.LessOrEqual(t, count(""), int64(1+1+blockers))
}

// TestNamesDifferByCase: also where the server's own names of locks do not.
func TestNamesDifferByCase(t *testing.T) {
	m := servers.SharedMariaDB(t)
	a, base := newBackend(t, m, Options{}), newName()
	claims(t, a, newOwner(), base+"name", base+"Name", base+"NAME", base+"namé", base+"name ")
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

// TestPoolSeesEveryRequest: a wrapped driver, which can do the least that database/sql asks of it, carries all requests of a cycle.
func TestPoolSeesEveryRequest(t *testing.T) {
	m := servers.SharedMariaDB(t)
	p, db := tapFor(t, m.DSN())
	c, err := New(db, Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	name := newName()
	require.NoError(t, acquire(t, c, name).Release(t.Context()))
	p.on(nil)
	l := acquire(t, c, name)
	time.Sleep(3 * beat)
	require.NoError(t, l.Err())
	require.NoError(t, l.Release(t.Context()))
	said := p.statements()
	require.GreaterOrEqual(t, len(said), 5, said)
	key := keyOf(name)
	require.Equal(t, "SELECT CONCAT(COALESCE(GET_LOCK('"+string(key)+"',0),2))a", said[0])
	require.Contains(t, said[1], "INSERT INTO `lockport_fence`")
	for _, query := range said[2 : len(said)-1] {
		require.Regexp(t, `^SELECT CONCAT\(COALESCE\(IS_USED_LOCK\('lockport\.session\.\w+'\)=CONNECTION_ID\(\),2\)\)a$`, query)
	}
	require.Equal(t, "SELECT CONCAT(COALESCE(RELEASE_LOCK('"+string(key)+"'),2))a", said[len(said)-1])
	_, err = c.Inspect(t.Context(), name)
	require.NoError(t, err)
	require.Contains(t, strings.Join(p.statements(), "\n"), "SELECT IS_USED_LOCK('"+string(key)+"'),")
	require.NoError(t, c.Close())
	require.NoError(t, db.PingContext(t.Context()), "it is the caller's")
}

// TestSmallPools: a pool that lockport has to itself is enough however small it is, and whoever finds no connection hears so in time.
func TestSmallPools(t *testing.T) {
	m := servers.SharedMariaDB(t)
	other := newClient(t, m.DSN(), Options{})
	for most, blockers := range []int{defaultBlockers, 0, 0, 1, 2} {
		db := poolFor(t, m.DSN())
		db.SetMaxOpenConns(most)
		b := backendOn(t, db, Options{})
		require.Equal(t, blockers, b.server.blockers(), most)
		c, err := lockport.New(b, lockport.Logger(nil))
		require.NoError(t, err)
		held, name := acquire(t, c, newName()), newName()
		others := []*lockport.Lock{acquire(t, other, name), acquire(t, other, name+"2")}
		got := []<-chan *lockport.Lock{awaited(c, name), awaited(c, name+"2")}
		time.Sleep(100 * time.Millisecond)
		for i, l := range others {
			require.NoError(t, l.Release(t.Context()))
			require.NoError(t, result(t, got[i]).Release(t.Context()))
		}
		if most == 1 {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			_, err := b.Inspect(ctx, name)
			require.ErrorIs(t, err, driver.ErrUnavailable)
			require.ErrorContains(t, err, "the pool's 1 connections (MaxOpenConns) are in use")
		}
		require.NoError(t, held.Err())
		require.NoError(t, held.Release(t.Context()))
		require.NoError(t, c.Close())
	}

	// The caller's own queries have them all.
	db := poolFor(t, m.DSN())
	db.SetMaxOpenConns(1)
	own, err := db.Conn(t.Context())
	require.NoError(t, err)
	b := backendOn(t, db, Options{TTL: time.Second})
	_, err = b.TryAcquire(t.Context(), driver.Request{Name: newName(), Owner: newOwner(), TTL: time.Second})
	require.ErrorIs(t, err, driver.ErrUnavailable)
	require.ErrorContains(t, err, "MaxOpenConns")
	require.NoError(t, own.Close())
	claims(t, b, newOwner(), newName())
}

// TestAnsweredTooLate: what the server grants after its caller has left is given back, and Abandon says nil only when that is certain.
func TestAnsweredTooLate(t *testing.T) {
	m := servers.SharedMariaDB(t)
	p, db := tapFor(t, m.DSN())
	b := backendOn(t, db, Options{TTL: time.Minute})
	bystander := claims(t, b, newOwner(), newName())[0]
	answer := make(chan struct{})
	p.on(func(query string) error {
		if strings.HasPrefix(query, "INSERT") { // the lock is granted, its token is not drawn yet
			<-answer
		}
		return nil
	})
	req := driver.Request{Name: newName(), Owner: newOwner(), TTL: time.Minute}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := b.TryAcquire(ctx, req)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, driver.ErrUnavailable)
	require.NotZero(t, holderOf(t, m, req.Name))
	abandoned := make(chan error, 1)
	go func() { abandoned <- b.Abandon(context.Background(), req) }()
	time.Sleep(50 * time.Millisecond)
	require.Empty(t, abandoned)
	close(answer)
	require.NoError(t, result(t, abandoned))
	require.Zero(t, holderOf(t, m, req.Name))
	require.NoError(t, bystander.Release(t.Context()), "the session has not ended with the caller's context")
}
