package postgres

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/lab/servers"
	"github.com/lockport/lockport/internal/lab/worker"
	"github.com/lockport/lockport/internal/session"
)

// An ended session holds nothing. A later process with its number is left alone.
func TestEndOfAnEarlierSession(t *testing.T) {
	s := backendAt(t, database(t).URL()+"?ttl=10s").server
	a, b := dialed(t, s), dialed(t, s)
	ask(t, b, op(session.Try, 3))
	end := func(earlier *conn) *session.Op { return &session.Op{Kind: session.End, Earlier: earlier} }
	process := peer.Must(os.FindProcess(int(b.pid)))(t)
	require.NoError(t, worker.Freeze(process))
	ending := end(b)
	ask(t, a, ending)
	require.ErrorIs(t, s.look(t.Context(), func(l session.Looker) error { return l.End(t.Context(), session.Holder{Session: b.pid, Key: "3"}) }), driver.ErrUnknown)
	require.NoError(t, worker.Thaw(process))
	require.False(t, ending.OK)
	for ended := end(b); !ended.OK; {
		ask(t, a, ended)
	}
	taken := op(session.Try, 3)
	ask(t, a, taken)
	require.True(t, taken.OK)
	require.ErrorContains(t, b.Do(t.Context(), []*session.Op{op(session.Ping, 0)}), "57P01")
	for _, earlier := range []*conn{b, {pid: 1, marker: b.marker}, {pid: a.pid, marker: b.marker}} {
		ended := end(earlier)
		ask(t, a, ended)
		require.True(t, ended.OK)
	}
	ask(t, a, op(session.Ping, 0))
	value[string](t, a, `SELECT set_config('lockport.session', '1', false)`) // as if a pooler had given a another session
	for _, o := range []*session.Op{op(session.Ping, 0), op(session.Try, 4), op(session.Free, 3), op(session.Await, 4), op(session.Leave, 4), end(b)} {
		require.ErrorContains(t, a.Do(t.Context(), []*session.Op{o}), "another session answers")
	}
}

// Notifications arrive while requests follow each other without a pause: the holder hears of waiters, and waiters of a free lock or permit.
func TestNotifications(t *testing.T) {
	s := backendAt(t, database(t).URL()+"?ttl=10s").server
	a, _, contended := talking(t, s)
	b, freed, own := talking(t, s)
	hears := func(c *conn, events chan session.Key) {
		t.Helper()
		for start := time.Now(); len(events) == 0 && time.Since(start) < soon; {
			ask(t, c, op(session.Ping, 0))
		}
		require.Equal(t, session.Key("1"), peer.Eventually(t, events))
	}
	ask(t, a, op(session.Try, 1))
	ask(t, b, op(session.Await, 1))
	hears(a, contended)
	ask(t, a, op(session.Free, 1))
	hears(b, freed)
	for _, also := range [][]*session.Op{nil, {op(session.Try, 2)}} { // with another op, by another statement
		permit := &session.Op{Kind: session.Try, Key: "1", Slots: []session.Key{"7"}}
		ask(t, a, permit)
		ask(t, a, append(also, &session.Op{Kind: session.Free, Key: permit.Key, Slot: "7"})...)
		hears(b, freed)
	}
	value[int](t, a, `SELECT length(pg_notify('lockport', '')::text)`) // by any role
	ask(t, b, op(session.Leave, 1))
	ask(t, a, op(session.Try, 1))
	done := waits(t, b, op(session.Try, 1))
	hears(a, contended)
	ask(t, a, op(session.Free, 1))
	require.NoError(t, peer.Eventually(t, done))
	ask(t, b, op(session.Free, 1))
	require.Empty(t, freed, "notified after Leave")
	require.Empty(t, own, "told of its own wait")
}

// Listen ends with its context, also if the caller's pool ends requests by asking the server to cancel them.
func TestListenEndsAtOnce(t *testing.T) {
	db := dbAt(t, database(t).URL(), func(config *pgx.ConnConfig) {
		config.BuildContextWatcherHandler = func(c *pgconn.PgConn) ctxwatch.Handler {
			return &pgconn.CancelRequestContextWatcherHandler{Conn: c, DeadlineDelay: 2 * soon}
		}
	})
	c := dialed(t, peer.Must(NewDBBackend(db, Options{}))(t).server)
	for range 2 {
		began := time.Now()
		require.NoError(t, c.Listen(peer.Within(t, 10*time.Millisecond)))
		require.Less(t, time.Since(began), soon)
		ask(t, c, op(session.Ping, 0))
	}
}

// A wait goes on after the server's lock_timeout. What the session hears meanwhile, it passes on.
func TestWaitGoesOnInTurns(t *testing.T) {
	p := database(t)
	s := backendAt(t, p.URL()+"?ttl=10s").server
	holder := dialed(t, s)
	waiter, freed, _ := talking(t, s)
	waiter.statements.wait.sql = strings.Replace(waiter.statements.wait.sql, "60000", "20", 1)
	ask(t, holder, op(session.Try, 1))
	wait := op(session.Try, 1)
	done := waits(t, waiter, wait)
	turn := func() time.Time {
		return query[time.Time](t, p.root, `SELECT coalesce(max(query_start), 'epoch') FROM pg_stat_activity WHERE wait_event = 'advisory' AND pid = $1`, waiter.pid)
	}
	var first time.Time
	peer.Until(t, func() bool { first = turn(); return first.Year() > 1970 })
	require.Eventually(t, func() bool { return turn().After(first) }, soon, time.Millisecond, "the wait was not repeated")
	execute(t, p.root, `SELECT pg_notify('lockport', 'f7')`)
	require.Equal(t, session.Key("7"), peer.Eventually(t, freed))
	require.Empty(t, done)

	// Now the lock is granted, but its token must wait.
	execute(t, p.root, `BEGIN; ALTER SEQUENCE `+s.tokens.sequence()+` CACHE 1`)
	ask(t, holder, op(session.Free, 1))
	draws := func() int64 {
		return query[int64](t, p.root, `SELECT count(*) FROM pg_locks WHERE locktype = 'relation' AND NOT granted AND pid = $1`, waiter.pid)
	}
	for range 2 {
		require.Eventually(t, func() bool { return draws() == 1 }, soon, time.Millisecond)
		require.Eventually(t, func() bool { return draws() == 0 }, soon, time.Millisecond)
	}
	require.Empty(t, done)
	execute(t, p.root, `COMMIT`)
	require.NoError(t, peer.Eventually(t, done))
	require.NoError(t, wait.Err)
	require.True(t, wait.OK)
	ask(t, waiter, op(session.Free, 1))
	require.Equal(t, "100ms", value[string](t, waiter, `SHOW lock_timeout`))
	require.Zero(t, query[int64](t, p.root, `SELECT count(*) FROM locks`), "the waiter has taken the lock more than once")
}

// A commit that waits for its replica keeps the server's queue of notifications locked. Waiters are served all the same.
func TestNotificationsAreStuck(t *testing.T) {
	t.Parallel()
	p := servers.NeedPostgres(t, servers.PostgresOptions{Config: []string{"synchronous_standby_names = 'absent'", "synchronous_commit = local"}})
	conn, root := admin(t, p.AdminURL()), admin(t, p.AdminURL())
	var commit sync.WaitGroup
	commit.Go(func() {
		_, _ = conn.Exec(t.Context(), `SET synchronous_commit = on; BEGIN; CREATE TABLE stuck (); NOTIFY x; COMMIT`)
	})
	t.Cleanup(commit.Wait)
	const at = `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = $1)`
	waits := func(where string) { peer.Until(t, func() bool { return query[bool](t, root, at, where) }) }
	waits("SyncRep")
	l := peer.Holds(t, clientAt(t, p.URL()), "x")
	got := peer.Acquiring(t, clientAt(t, p.URL()), "x")
	waits("advisory")
	require.NoError(t, l.Release(t.Context()))
	require.NoError(t, peer.Eventually(t, got).Release(t.Context()))
}

// A session that waits says nothing: its server's system ends it when the client's machine is gone, a quarter of the TTL after the TTL.
func TestSessionsOfGoneMachinesEnd(t *testing.T) {
	p := database(t)
	a := dialed(t, backendAt(t, p.URL()+"?ttl=10s").server)
	for setting, want := range map[string]string{
		"idle_session_timeout": "10000", "tcp_user_timeout": "12500", "client_connection_check_interval": "2500",
		"tcp_keepalives_idle": "5", "tcp_keepalives_interval": "2", "tcp_keepalives_count": "3", "synchronous_commit": "off", "lock_timeout": "100",
	} {
		require.Equal(t, want, value[string](t, a, `SELECT setting FROM pg_settings WHERE name = $1`, setting))
	}
	// If the link falls silent, the wait ends at the client.
	proxy := peer.Proxy(t, p.Addr())
	c := dialed(t, backendAt(t, peer.Via(t, p.URL()+"?ttl=2s", proxy.Addr())).server)
	proxy.Freeze()
	require.Error(t, peer.Eventually(t, waits(t, c, op(session.Try, 1))))
}

// A batch takes each lock before it draws its token. Otherwise an earlier holder could have a greater token.
func TestBatchesDrawTokensInTheOrderOfTheirLocks(t *testing.T) {
	const keys = 128
	s := backendAt(t, database(t).URL()+"?ttl=10s").server
	one, many := dialed(t, s), dialed(t, s)
	var newest uint64 // token of the last key; only its holder reads or writes it
	running, stop := context.WithCancel(t.Context())
	var other sync.WaitGroup
	takes := func(who string, token uint64) {
		if token <= newest {
			t.Errorf("%s got token %d after %d", who, token, newest)
		}
		newest = max(newest, token)
	}
	other.Go(func() {
		for running.Err() == nil {
			if o := op(session.Try, keys); one.Do(t.Context(), []*session.Op{o}) == nil && o.OK {
				takes("one", o.Token)
				_ = one.Do(t.Context(), []*session.Op{op(session.Free, keys)})
			}
		}
	})
	for range 500 {
		var tries, frees []*session.Op
		for k := range int64(keys) {
			tries, frees = append(tries, op(session.Try, k+1)), append(frees, op(session.Free, k+1))
		}
		ask(t, many, tries...)
		if last := tries[keys-1]; last.OK {
			takes("many", last.Token)
		}
		ask(t, many, frees...) // the last one may be the other's, which stays
	}
	stop()
	other.Wait()
}
