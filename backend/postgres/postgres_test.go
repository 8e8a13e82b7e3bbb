package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/lab/servers"
	"github.com/lockport/lockport/internal/session"
)

// clientAt opens a client by URL, and closes it when the test ends.
func clientAt(t testing.TB, rawURL string, opts ...lockport.Option) *lockport.Client {
	return peer.Client(t, peer.Opened(t, rawURL), opts...)
}

func tokenOf(t testing.TB, l *lockport.Lock) lockport.Token {
	token, ok := l.Token()
	require.True(t, ok)
	return token
}

func sessionOf(t testing.TB, l *lockport.Lock) Session {
	var s Session
	require.True(t, l.As(&s))
	return s
}

// Foreign transactions that lock the key, by the page's SQL, and lockport's clients exclude each other.
func TestMixedFleet(t *testing.T) {
	p := database(t)
	c, conn, name := clientAt(t, p.URL()), admin(t, p.URL()), `\101é`
	key := query[int64](t, conn, `SELECT ('x' || encode(substring(sha256(convert_to('lockport:' || $1, 'UTF8')), 1, 8), 'hex'))::bit(64)::bigint`, name)
	l := peer.Holds(t, c, name)
	require.False(t, query[bool](t, conn, `SELECT pg_try_advisory_xact_lock($1)`, key))
	require.NoError(t, l.Release(t.Context()))
	execute(t, conn, `BEGIN`)
	require.True(t, query[bool](t, conn, `SELECT pg_try_advisory_xact_lock($1)`, key))
	require.ErrorIs(t, peer.ErrOf(c.TryAcquire(t.Context(), name)), lockport.ErrHeld)
	got := peer.Acquiring(t, c, name)
	p.queues(t)
	require.Empty(t, got)
	execute(t, conn, `COMMIT`)
	require.NoError(t, peer.Eventually(t, got).Release(t.Context()))

	readers := clientAt(t, p.URL(), lockport.WithoutHandOff())
	first := peer.Holds(t, readers, name, lockport.Shared())
	second := peer.Holds(t, readers, name, lockport.Shared())
	writer := make(chan error, 1)
	go func() { writer <- peer.ErrOf(conn.Exec(t.Context(), `SELECT pg_advisory_lock($1)`, key)) }()
	p.queues(t)
	require.ErrorIs(t, peer.ErrOf(readers.TryAcquire(t.Context(), name, lockport.Shared())), lockport.ErrHeld, "a foreign writer waits, which announces nothing")
	require.NoError(t, first.Release(t.Context()))
	require.NoError(t, second.Release(t.Context()))
	require.NoError(t, peer.Eventually(t, writer))
}

// A reader does not overtake a waiting writer, and is not refused once the writer has left. The readers of the client are separate claims.
func TestReadersBesideAWriterThatLeaves(t *testing.T) {
	p := database(t)
	readers, writers := clientAt(t, p.URL(), lockport.WithoutHandOff()), clientAt(t, p.URL())
	peer.Holds(t, readers, "x", lockport.Shared())
	waiting, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() { _, err := writers.Acquire(waiting, "x"); left <- err }()
	p.queues(t)
	tries := func() error {
		l, err := readers.TryAcquire(t.Context(), "x", lockport.Shared())
		if err == nil {
			require.NoError(t, l.Release(t.Context()))
		}
		return err
	}
	peer.Until(t, func() bool { return errors.Is(tries(), lockport.ErrHeld) })
	require.ErrorIs(t, tries(), lockport.ErrHeld)
	leave()
	require.ErrorIs(t, peer.Eventually(t, left), context.Canceled)
	peer.Until(t, func() bool { return tries() == nil })
}

// A server crash loses the locks, and values of the sequence that were drawn but not written. Tokens rise nevertheless.
func TestTokensRiseOverCrashAndRestart(t *testing.T) {
	t.Parallel()
	p := servers.NeedPostgres(t, servers.PostgresOptions{Config: []string{"fsync = on", "full_page_writes = on", "wal_writer_delay = 10s"}})
	a, b := clientAt(t, p.URL()), clientAt(t, p.URL())
	var last lockport.Token
	for i, end := range []func() error{func() error { // one process dies, and the postmaster restarts all others
		require.Error(t, peer.ErrOf(admin(t, p.AdminURL()).Exec(t.Context(), `DO $$ BEGIN EXECUTE 'COPY (SELECT 1) TO PROGRAM ''kill -9 '||pg_backend_pid()||''''; END $$`)))
		return nil
	}, p.Kill, func() error {
		execute(t, admin(t, p.AdminURL()), `ALTER TABLE public.lockport_epoch SET LOGGED`) // a crash does not empty it, as on Aurora
		return p.Stop()
	}, p.Kill} {
		var held *lockport.Lock
		for n := range 50 {
			if held != nil {
				require.NoError(t, held.Release(t.Context()))
			}
			held = peer.Holds(t, []*lockport.Client{a, b}[n%2], "x")
			require.Greater(t, tokenOf(t, held), last, "round %d", i)
			last = tokenOf(t, held)
		}
		require.NoError(t, end())
		peer.Eventually(t, held.Lost())
		if i > 0 {
			require.NoError(t, p.Restart(t.Context()))
		} else {
			require.Eventually(t, func() bool {
				l, err := a.TryAcquire(t.Context(), "x")
				return err == nil && l.Release(t.Context()) == nil
			}, soon, 10*time.Millisecond)
		}
	}
	l := peer.Holds(t, a, "x")
	require.Greater(t, tokenOf(t, l), last)
	require.GreaterOrEqual(t, tokenOf(t, l), lockport.Token(5*crashGap*driver.TokensPerGrant), "a crash or a start did not move the sequence on")
	require.Less(t, tokenOf(t, l), lockport.Token(6*crashGap*driver.TokensPerGrant), "something else moved the sequence on")
}

func TestAdministratorsTimeoutsDoNotEndAHold(t *testing.T) {
	p := database(t)
	for name, value := range map[string]string{
		"idle_session_timeout": "200ms", "statement_timeout": "200ms", "lock_timeout": "150ms", "default_transaction_read_only": "on",
		"idle_in_transaction_session_timeout": "200ms", "default_transaction_isolation": "serializable",
	} {
		execute(t, p.root, `ALTER DATABASE `+p.name+` SET `+name+` = '`+value+`'`)
	}
	a, b := clientAt(t, p.URL()), clientAt(t, p.URL())
	l := peer.Holds(t, a, "x")
	// A session waits while another moves the sequence on after a start of the server, and then does not do it again.
	token := query[int64](t, p.root, `SELECT last_value FROM public.lockport_token`)
	execute(t, p.root, `DELETE FROM public.lockport_epoch`)
	execute(t, p.root, `BEGIN; SELECT pg_advisory_xact_lock(`+setUpLock+`); INSERT INTO public.lockport_epoch SELECT pg_postmaster_start_time()`)
	got := peer.Acquiring(t, b, "x")
	peer.Until(t, func() bool {
		return query[bool](t, p.root, `SELECT EXISTS (SELECT FROM pg_locks JOIN pg_database d ON d.oid = database AND datname = current_database()
			WHERE NOT granted AND clock_timestamp() - waitstart > '200ms')`)
	})
	execute(t, p.root, `COMMIT`)
	require.Never(t, func() bool { return !l.Valid() || len(got) > 0 }, time.Second, 10*time.Millisecond, "lost, or granted twice")
	require.Eventually(t, func() bool {
		return query[bool](t, p.root, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'advisory'
			AND clock_timestamp() - query_start > '500ms')`)
	}, soon, 10*time.Millisecond, "the waiter lost its place")
	require.Equal(t, token, query[int64](t, p.root, `SELECT last_value FROM public.lockport_token`))
	require.NoError(t, l.Release(t.Context()))
	require.NoError(t, peer.Eventually(t, got).Release(t.Context()))
}

// Sessions are connections outside the caller's pool, which may be used up: one for held locks, and Blockers for waiters.
func TestThePoolIsNotTouched(t *testing.T) {
	const names, blockers = 8, 2
	p := database(t)
	pool := poolAt(t, p.URL(), func(config *pgxpool.Config) {
		config.MaxConns = 1
		config.ConnConfig.OnNotification = func(*pgconn.PgConn, *pgconn.Notification) { t.Error("the pool's OnNotification was called") }
	})
	only := peer.Must(pool.Acquire(t.Context()))(t)
	t.Cleanup(only.Release)
	waiting := peer.Client(t, peer.Must(NewBackend(pool, Options{Blockers: blockers}))(t))
	holder := clientAt(t, p.URL())
	var got []<-chan *lockport.Lock
	var held []*lockport.Lock
	for i := range names {
		held = append(held, peer.Holds(t, holder, fmt.Sprint(i)))
		got = append(got, peer.Acquiring(t, waiting, fmt.Sprint(i)))
	}
	require.Eventually(t, func() bool {
		return query[int](t, p.root, `SELECT count(*) FROM locks WHERE NOT granted`) == blockers && query[int](t, p.root, `SELECT count(*) FROM locks WHERE objsubid = 2`) == names-blockers
	}, soon, 10*time.Millisecond, "want all Blockers in the server's queue, and the other waiters notified")
	looking := backendAt(t, p.URL())
	for i := range names {
		st := peer.Shows(t, looking, fmt.Sprint(i))
		require.Equal(t, []int{1, 0}, []int{st.Waiters, len(st.Others)}, "a waiter is no holder")
	}
	require.LessOrEqual(t, query[int](t, p.root, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'lockport%'`), 1+1+blockers)
	for i, l := range held {
		require.NoError(t, l.Release(t.Context()))
		require.NoError(t, peer.Eventually(t, got[i]).Release(t.Context()))
	}
}

// All share the lock table: a client takes at most half of it. If others have filled it, an acquisition fails without effect.
func TestLockTableFull(t *testing.T) {
	t.Parallel()
	p := servers.NeedPostgres(t, servers.PostgresOptions{Config: []string{"max_locks_per_transaction = 10", "max_connections = 20"}})
	c := clientAt(t, p.URL())
	var held []*lockport.Lock
	l, err := c.TryAcquire(t.Context(), "0")
	for i := 1; err == nil && i < 200; i++ {
		held = append(held, l)
		l, err = c.TryAcquire(t.Context(), fmt.Sprint(i))
	}
	peer.SaysOneLine(t, err, lockport.ErrUnavailable, "max_locks_per_transaction")
	require.Len(t, held, 100)
	require.NoError(t, held[0].Release(t.Context()))
	held[0] = peer.Must(c.TryAcquire(t.Context(), "another"))(t)

	// A foreign session fills the rest.
	conn := admin(t, p.AdminURL())
	fill := func(step int) error {
		return peer.ErrOf(conn.Exec(t.Context(), `SELECT pg_advisory_lock(i * $1::bigint) FROM generate_series(1, 1 << 20) i`, step))
	}
	require.ErrorContains(t, fill(1), "out of shared memory")
	require.NoError(t, held[0].Release(t.Context()))
	require.ErrorContains(t, fill(-1), "out of shared memory") // released entries are taken
	peer.SaysOneLine(t, peer.ErrOf(c.TryAcquire(t.Context(), "more")), lockport.ErrUnavailable, "lock table is full")
	for _, l := range held[1:] {
		require.NoError(t, l.Err())
		require.NoError(t, l.Release(t.Context()), "a full table blocked a release")
	}
	execute(t, conn, `SELECT pg_advisory_unlock_all()`)
	require.NoError(t, peer.Holds(t, c, "more").Release(t.Context()))
}

// An error after the lock was taken, here of the sequence, does not undo the lock: it is released before the claim fails. But a session cannot tell
// whether it has a shared key once or twice. In doubt it ends: one release too many would release another reader's lock.
func TestErrorBehindTheLock(t *testing.T) {
	p := database(t)
	s := backendAt(t, p.URL()).server
	c, d := dialed(t, s), dialed(t, s)
	ask(t, c, op(session.Try, 1))
	ask(t, d, reader(session.Try, 11), reader(session.Try, 11), reader(session.Try, 12))
	ask(t, d, reader(session.Free, 11), reader(session.Free, 12))
	require.Equal(t, map[session.Key]int{"11": 1}, d.shares)
	require.Equal(t, int64(1), query[int64](t, p.root, `SELECT count(*) FROM locks WHERE mode = 'ShareLock'`), "the other reader lost it")
	execute(t, p.root, `SELECT setval('public.lockport_token', 9007199254740991)`) // the last one
	permit := &session.Op{Kind: session.Try, Key: "7", Slots: []session.Key{"8", "9"}}
	for _, ops := range [][]*session.Op{
		{op(session.Try, 2)}, {op(session.Try, 3), op(session.Try, 4), op(session.Try, 5)}, {reader(session.Try, 6)}, {permit},
	} {
		require.NoError(t, c.Do(t.Context(), ops), "the session ended")
		for _, o := range ops {
			peer.SaysOneLine(t, o.Err, driver.ErrRefused, "used up")
			require.False(t, o.OK)
		}
		require.Equal(t, int64(2), query[int64](t, p.root, `SELECT count(*) FROM locks`))
	}
	freed := op(session.Free, 1)
	ask(t, c, freed)
	require.True(t, freed.OK)
	require.Error(t, d.Do(t.Context(), []*session.Op{reader(session.Try, 11)}))

	// Nor do errors after a lock was released. The lost table is created again.
	execute(t, p.root, `DROP TABLE public.lockport_epoch; SELECT setval('public.lockport_token', 1)`)
	e := dialed(t, s)
	e.statements.change.sql = strings.Replace(e.statements.change.sql, "WHEN pg_try_advisory_xact_lock", "WHEN 1/(k-k) > 0 AND pg_try_advisory_xact_lock", 1)
	e.statements.await.sql = strings.Replace(e.statements.await.sql, "'c' || $2::bigint", "'c' || $2::bigint / ($3-$3)", 1)
	for range 2 {
		await := op(session.Await, 3)
		require.NoError(t, e.Do(t.Context(), []*session.Op{await}))
		require.ErrorIs(t, await.Err, driver.ErrRefused)
		ask(t, e, op(session.Try, 1), reader(session.Try, 2))
		ask(t, e, op(session.Free, 1), reader(session.Free, 2))
		require.Zero(t, query[int64](t, p.root, `SELECT count(*) FROM locks WHERE pid = $1`, e.pid))
	}
	ask(t, e, reader(session.Try, 2), reader(session.Try, 2))
	require.Error(t, e.Do(t.Context(), []*session.Op{reader(session.Free, 2), op(session.Free, 1)}), "did this release the lock of one reader?")
}
