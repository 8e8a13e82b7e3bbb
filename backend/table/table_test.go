package table

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/lab/servers"
	"github.com/lockport/lockport/internal/pages"
	"github.com/lockport/lockport/internal/sqlrow"
)

// onServers runs test on a new table of each server, or of those that speak one of only.
func onServers(t *testing.T, test func(t *testing.T, d Dialect, b *Backend, url string), only ...Dialect) {
	for d, url := range []string{servers.SharedPostgres(t).URL() + "?", servers.SharedMariaDB(t).URL() + "?charset=utf8mb4,utf8&"} {
		if len(only) > 0 && !slices.Contains(only, Dialect(d)) {
			continue
		}
		t.Run(url[:5], func(t *testing.T) {
			url := fmt.Sprintf("table+%stable=RETURNING_%d", url, time.Now().UnixNano())
			b := peer.Must(openURL(t.Context(), url))(t)
			t.Cleanup(func() {
				_, _ = b.(*Backend).run(context.Background(), driver.ErrUnknown, "DROP TABLE {table}")
				_ = b.Close()
			})
			test(t, Dialect(d), b.(*Backend), url)
		})
	}
}

// within is far longer than any step takes on a busy machine.
const within = 30 * time.Second

func request(name string, n int) driver.Request {
	return driver.Request{Name: name, Owner: fmt.Sprintf("%032x:web-1/4242/worker/89abcdef", n), TTL: time.Minute}
}

const someOwner = "0123456789abcdef0123456789abcdef:web-1/4242/worker/89abcdef"

func do(t *testing.T, b *Backend, statement string, args ...any) (rows [][]string) {
	a := peer.Must(b.run(t.Context(), driver.ErrUnknown, statement, args...))(t)
	for _, r := range a.rows {
		var row []string
		for i := range r {
			row = append(row, r.Text(i))
		}
		rows = append(rows, row)
	}
	return rows
}

// lockRow returns a transaction that has updated the row of a name, and keeps it locked.
func lockRow(t *testing.T, b *Backend, name string) *sql.Tx {
	tx := peer.Must(b.db.BeginTx(t.Context(), nil))(t)
	peer.Must(tx.ExecContext(t.Context(), b.text("UPDATE {table} SET since = 2 WHERE name = ?"), name))(t)
	return tx
}

func number(text string) int64 { return sqlrow.Row{{String: text}}.Number(0) }

// TestLayoutGolden: other releases and programs share the rows. A change of the layout needs a major version.
func TestLayoutGolden(t *testing.T) {
	onServers(t, func(t *testing.T, d Dialect, b *Backend, _ string) {
		// Rows of the first release: held, free, expired, and with an abandoned claim.
		do(t, b, `INSERT INTO {table} (name, owner, token, since, expires, abandoned, abandoned_at) VALUES
			('held', ?, 1767225600000000, {now} - 500000000, {now} + 60000000, '', 0),
			('ever', 'cron:web-1', 5, 0, 9223372036854775807, '', 0),
			('free', '', 9000000000000000, 1767225600000000, 1767225605000000, '', 0),
			('expired', ?, 1767225600000000, 1767225600000000, {now} - 1, '', 0),
			('greatest', '', 9007199254740991, 0, 0, '', 0),
			('abandoned', '', 0, 0, {now}, '00000000000000000000000000000008', {now})`, someOwner, someOwner)
		st := peer.Shows(t, b, "held")
		require.Equal(t, []any{true, someOwner, false, uint64(1767225600000000)}, []any{st.Held, st.Owner, st.Foreign, st.Token})
		require.WithinDuration(t, time.Now().Add(-500*time.Second), st.Since, within)
		require.WithinDuration(t, time.Now().Add(time.Minute), st.Expires, within)
		ever := peer.Shows(t, b, "ever")
		require.True(t, ever.Foreign)
		require.WithinDuration(t, time.Now().Add(driver.MaxTTL), ever.Expires, within)
		all := []string{"SELECT *, xmax::text FROM {table}", "SELECT * FROM {table}"}[d]
		before := do(t, b, all)
		peer.Fails(t, b, request("held", 7), driver.ErrHeld)
		require.Equal(t, before, do(t, b, all), "a claim on a held name changed or locked its row")
		peer.Fails(t, b, request("abandoned", 8), driver.ErrHeld)
		peer.Fails(t, b, request("greatest", 8), driver.ErrUnknown)
		for name, above := range map[string]uint64{"free": 9000000000000000, "expired": 1767225600000000, "new": 1767225600000000, "abandoned": 1767225600000000} {
			require.Greater(t, peer.Takes(t, b, request(name, 9)).Grant().Token, above, name)
			st := peer.Shows(t, b, name)
			require.Equal(t, request("", 9).Owner, st.Owner, name)
			require.WithinDuration(t, time.Now(), st.Since, within, name)
		}

		// A row of this release.
		odd := "a\x00b\\c'é"
		lease := peer.Takes(t, b, request(odd, 1))
		rows := do(t, b, `SELECT name, owner, token, expires - since, abandoned, abandoned_at FROM {table} WHERE owner LIKE '%1_web%'`)
		require.Equal(t, [][]string{{`a\0b\\c'é`, request("", 1).Owner, fmt.Sprint(lease.Grant().Token), rows[0][3], "", "0"}}, rows)
		require.EqualValues(t, 60001000, number(rows[0][3]))
		require.InDelta(t, time.Now().UnixMicro(), lease.Grant().Token, float64(within.Microseconds()))
		require.NoError(t, lease.Release(t.Context()))
		require.Equal(t, [][]string{{""}}, do(t, b, `SELECT owner FROM {table} WHERE expires <= {now} AND token = `+rows[0][2]))
		require.Contains(t, strings.ReplaceAll(pages.Read(t, "backends/table.md"), "\n  ", " "), peer.Must(Schema(d, Options{}))(t)+";")
	})
}

// Only rows untouched for a week are deleted, and no others are locked.
func TestPrune(t *testing.T) {
	onServers(t, func(t *testing.T, _ Dialect, b *Backend, _ string) {
		ctx := peer.Within(t, within/3)
		enter := func(rows int) {
			values := ""
			for n := range rows {
				values += fmt.Sprintf(", ('old%d', '', 1, 1, 1, '', 0)", n)
			}
			do(t, b, "INSERT INTO {table} VALUES "+values[2:])
		}
		left := func() int64 { return number(do(t, b, "SELECT count(*) FROM {table}")[0][0]) }
		enter(4100)
		do(t, b, "INSERT INTO {table} VALUES ('free', '', 1, 1, {now} - 604000000000, '', 0), ('abandoned', '', 1, 1, 1, 'x', {now}), ('held', 'x', 1, 1, {now}, '', 0), ('ahead', '', 4000000000000000, 1, 1, '', 0)")
		tx := lockRow(t, b, "free")
		require.NoError(t, b.prune(ctx))
		require.NoError(t, tx.Rollback())
		require.EqualValues(t, 104, left())

		b.ended.Store(pruneEvery - 1)
		lease := peer.Takes(t, b, request("a", 1))
		require.EqualValues(t, 105, left(), "a claim pruned while its validity was running")
		require.NoError(t, lease.Release(ctx))
		require.EqualValues(t, 5, left())
		enter(1)
		b.ended.Store(pruneEvery - 1)
		require.NoError(t, b.Abandon(ctx, request("b", 1)))
		require.Equal(t, [][]string{{"a"}, {"abandoned"}, {"ahead"}, {"b"}, {"free"}, {"held"}}, do(t, b, "SELECT name FROM {table} ORDER BY name"))
		require.Empty(t, b.turns)
	})
}

// With a qualified name, connections need no default database.
func TestNoDefaultDatabase(t *testing.T) {
	db := peer.Must(sql.Open("mysql", strings.Replace(servers.SharedMariaDB(t).DSN(), "/lockport", "/", 1)))(t)
	defer db.Close()
	o := Options{Table: fmt.Sprint("lockport.t", time.Now().UnixNano())}
	require.NoError(t, CreateTable(t.Context(), db, MySQL, o))
	b := peer.Must(NewBackend(db, MySQL, o))(t)
	defer do(t, b, "DROP TABLE {table}")
	require.Equal(t, []string{"durability"}, peer.IDs(peer.Must(b.Check(t.Context()))(t)))
	do(t, b, "INSERT INTO {table} VALUES ('old', '', 1, 1, 1, '', 0)")
	require.NoError(t, b.prune(t.Context()))
	require.Empty(t, do(t, b, "SELECT name FROM {table}"))
}

// Check warns of a node of a cluster, and of a binary log that is not synced. Without wsrep-on, MariaDB loads no provider.
func TestCluster(t *testing.T) {
	servers.SkipOnMySQL(t)
	m := servers.NeedMariaDB(t, servers.MariaDBOptions{Config: []string{"wsrep-provider=/absent", "innodb-flush-log-at-trx-commit=1", "log-bin=bin", "sync-binlog=0"}})
	require.Equal(t, []string{"durability", "cluster"}, peer.Notices(t, "table+"+m.URL()+"?create=true"))
}

// Three statements renew 2,500 locks. A batch with lost ones needs one more, and reports them.
// On Postgres, a row that another transaction has locked concerns no other lock.
func TestRenewalsTogether(t *testing.T) {
	onServers(t, func(t *testing.T, d Dialect, b *Backend, _ string) {
		leases, results := make([]driver.Lease, 2500), make([]driver.Renewal, 2500)
		var all sync.WaitGroup
		for part := range 4 {
			all.Go(func() {
				for n := part; n < len(leases); n += 4 {
					leases[n], _ = b.TryAcquire(t.Context(), request(fmt.Sprint(n), n+1))
				}
			})
		}
		all.Wait()
		require.NotContains(t, leases, nil)
		query, before := "SELECT 0, count(DISTINCT xmin::text) FROM {table}", int64(0) // the transactions that wrote its rows
		updates := func() int64 { return number(do(t, b, query)[0][1]) }
		if d == MySQL {
			query = "SHOW GLOBAL STATUS LIKE 'Com_update'"
			before = updates()
		}
		b.RenewBatch(t.Context(), leases, results)
		for n, r := range results {
			require.NoError(t, r.Err, n)
		}
		require.EqualValues(t, 3, updates()-before)
		do(t, b, "UPDATE {table} SET owner = 'somebody else' WHERE name = '7'")
		do(t, b, "DELETE FROM {table} WHERE name = '2400'")
		locked, unlock := -1, func() {}
		if d == Postgres {
			locked = 2009
			tx := lockRow(t, b, "2009")
			unlock = func() { _ = tx.Rollback() }
			defer unlock()
		}
		clear(results)
		ctx := peer.Within(t, within/3)
		b.RenewBatch(ctx, leases, results)
		require.NoError(t, ctx.Err())
		for n, r := range results {
			require.Equal(t, n == 7 || n == 2400, errors.Is(r.Err, driver.ErrLost), n)
			require.Equal(t, n == locked, errors.Is(r.Err, driver.ErrUnknown), n)
			require.Equal(t, r.Err == nil, !r.Until.IsZero(), n)
		}
		began := time.Now()
		time.AfterFunc(patience/10, unlock)
		b.RenewBatch(t.Context(), leases[2009:2010], results)
		require.True(t, results[0].Err == nil || time.Since(began) > 200*time.Millisecond, "%v", results[0].Err) // after a stall, patience is over
	})
}

// Renewals and releases of a backend opened by URL do not queue behind its claims.
func TestClaimsLeaveAConnection(t *testing.T) {
	onServers(t, func(t *testing.T, _ Dialect, b *Backend, url string) {
		do(t, b, "INSERT INTO {table} VALUES ('free', '', 1, 1, 1, '', 0)")
		held := peer.Takes(t, b, request("held", 1))
		other := peer.Must(openURL(t.Context(), url))(t)
		defer other.Close()
		tx := lockRow(t, other.(*Backend), "free") // claims wait for it
		var claims sync.WaitGroup
		for n := range 5 {
			claims.Go(func() { _, _ = b.TryAcquire(t.Context(), request("free", 2*n+1)) })
			claims.Go(func() { _ = b.Abandon(t.Context(), request("free", 2*n+2)) })
		}
		require.Eventually(t, func() bool { return b.db.Stats().InUse >= 3 }, within, time.Millisecond)
		left := peer.Within(t, 20*time.Millisecond)
		require.ErrorIs(t, peer.ErrOf(b.TryAcquire(left, request("a", 1))), driver.ErrUnavailable)
		require.ErrorIs(t, b.Abandon(left, request("a", 1)), driver.ErrUnavailable)
		ctx := peer.Within(t, within/3)
		for range 10 {
			require.NoError(t, peer.ErrOf(driver.Renew(ctx, b, held)))
		}
		require.NoError(t, held.Release(ctx))
		require.NoError(t, tx.Rollback())
		claims.Wait()
	})
}

// Validity counts from the statement, not from the queue for a connection. An error names that queue.
func TestValidityWithoutTheQueue(t *testing.T) {
	onServers(t, func(t *testing.T, _ Dialect, b *Backend, _ string) {
		b.db.SetMaxOpenConns(1)
		var lease driver.Lease
		queued := func(statement func() (until time.Time)) {
			conn := peer.Must(b.db.Conn(t.Context()))(t)
			defer conn.Close()
			require.ErrorContains(t, peer.ErrOf(b.Inspect(peer.Within(t, 20*time.Millisecond), "a")), "all 1 connections of the *sql.DB are in use or being opened")
			before, done := b.db.Stats().WaitCount, make(chan time.Time, 1)
			go func() { done <- statement() }()
			require.Eventually(t, func() bool { return b.db.Stats().WaitCount > before }, within, time.Millisecond)
			sent := time.Now()
			require.NoError(t, conn.Close())
			require.False(t, peer.Eventually(t, done).Before(sent.Add(time.Minute)))
		}
		queued(func() time.Time {
			lease = peer.Takes(t, b, request("a", 1))
			return lease.Grant().Until
		})
		queued(func() time.Time { return peer.Extends(t, b, lease) })
	})
}

// Settings that an earlier user of a pooled connection left.
func TestLeftSettings(t *testing.T) {
	onServers(t, func(t *testing.T, _ Dialect, b *Backend, _ string) {
		b.db.SetMaxOpenConns(1)
		held := peer.Takes(t, b, request("held", 1))
		do(t, b, "SET autocommit = 0") // no statement would be committed
		_, inspectErr := b.Inspect(t.Context(), "held")
		_, renewErr := driver.Renew(t.Context(), b, held)
		for _, err := range []error{peer.Fails(t, b, request("a", 1), driver.ErrRefused), peer.Fails(t, b, request("held", 2), driver.ErrRefused),
			inspectErr, renewErr, held.Release(t.Context()), b.Abandon(t.Context(), request("held", 1)), b.Abandon(t.Context(), request("a", 1))} {
			require.ErrorIs(t, err, driver.ErrRefused)
			require.ErrorContains(t, err, "autocommit=1")
		}
		do(t, b, "SET autocommit = 1")
		peer.Fails(t, b, request("held", 2), driver.ErrHeld)
		servers.SkipOnMySQL(t)
		// In this mode, which sql_mode=ORACLE includes, MariaDB's assignments see the old row.
		do(t, b, "SET sql_mode = 'STRICT_ALL_TABLES,SIMULTANEOUS_ASSIGNMENT'")
		for n := range 3 {
			lease := peer.Takes(t, b, request("a", 2*n+1))
			require.WithinDuration(t, time.Now().Add(time.Minute), peer.Shows(t, b, "a").Expires, within)
			peer.Fails(t, b, request("a", 2*n+2), driver.ErrHeld)
			peer.Extends(t, b, lease)
			require.NoError(t, lease.Release(t.Context()))
			do(t, b, "UPDATE {table} SET expires = {now} + 3600000000 WHERE name = 'a'") // as an Abandon can leave it
		}
	}, MySQL)
}

func TestOptionsAndURLs(t *testing.T) {
	for _, o := range []Options{{Table: "a.b.c"}, {Table: "a b"}, {Table: "a;"}, {Table: "1"}} {
		require.ErrorIs(t, peer.ErrOf(NewBackend(new(sql.DB), Postgres, o)), lockport.ErrInvalidOption, o)
	}
	require.ErrorIs(t, peer.ErrOf(NewBackend(nil, Postgres, Options{})), lockport.ErrInvalidOption)
	require.ErrorIs(t, peer.ErrOf(Schema(3, Options{})), lockport.ErrInvalidOption)

	peer.BadURLs(t, map[string]string{
		"table+postgres://u@h":                        "like table+postgres://user",
		"table+mysql://h/db":                          "like table+mysql://user",
		"table+mysql://u%3Av:secret@h/db":             "no user name with a colon",
		"table+sqlite://h/db":                         "like table+sqlite:///",
		"table+sqlite:///db":                          `called "sqlite": import modernc.org/sqlite`,
		"table+mysql://u:secret@h/db?tls=nowhere":     "does not understand",
		"table+postgres://u:secret@h/db?create=maybe": "create",
		"table+postgres://u:secret@h/db?table=a%20b":  "Table",
	})
}

// made has the URLs whose tables this process has created.
var made sync.Map

// openURL is peer.Open, but the first call for a URL creates the table.
func openURL(ctx context.Context, rawURL string) (driver.Backend, error) {
	b, err := peer.Open(ctx, rawURL)
	if err != nil {
		return nil, err
	}
	if _, done := made.LoadOrStore(rawURL, true); !done {
		err = b.(*Backend).makeTable(ctx)
	}
	return b, err
}

func TestMain(m *testing.M) {
	_ = mysql.SetLogger(&mysql.NopLogger{}) // do not print errors of cut connections
	conformance.WorkerMain(openURL)
	os.Exit(m.Run())
}

// isOp classifies requests by their statements.
var isOp = peer.Ops{
	conformance.OpAcquire: peer.With("greatest(", "LAST_INSERT_ID("),
	conformance.OpRenew:   peer.With("UPDATE lockport_locks SET expires"),
	conformance.OpRelease: peer.With("UPDATE lockport_locks SET owner = ''"),
}.Is
