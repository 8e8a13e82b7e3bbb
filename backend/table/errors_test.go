package table

import (
	"cmp"
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	gomysql "github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/lab/servers"
)

// The table is created only on request, and doctor says how.
func TestMissingTable(t *testing.T) {
	onServers(t, func(t *testing.T, d Dialect, b *Backend, url string) {
		do(t, b, "DROP TABLE {table}")
		require.ErrorContains(t, peer.Fails(t, b, request("a", 1), driver.ErrRefused), " is missing; create it: CREATE TABLE")
		_, name, _ := strings.Cut(url, "table=")
		err := peer.ErrOf(b.Check(t.Context()))
		peer.SaysOneLine(t, err, driver.ErrRefused, peer.Must(Schema(d, Options{Table: name}))(t))
		require.ErrorContains(t, err, "depends on search_path")
		peer.Refuses(t, strings.Replace(url, "table=", "table="+[]string{"pg_catalog", "mysql"}[d]+".", 1)+"&create=true", driver.ErrRefused, "CREATE TABLE")

		for range 2 {
			require.NoError(t, CreateTable(t.Context(), b.db, d, Options{Table: name}))
		}
		require.NoError(t, peer.ErrOf(b.Check(t.Context())))
		do(t, b, "DROP TABLE {table}")
		client := peer.Must(lockport.Open(t.Context(), url+"&create=true", lockport.Logger(nil)))(t)
		require.NoError(t, client.Close())
		for _, right := range map[Dialect][]string{Postgres: {"INSERT", "UPDATE", "DELETE"}}[d] { // CREATE TABLE IF NOT EXISTS needs none of them
			do(t, b, "REVOKE "+right+" ON {table} FROM CURRENT_USER")
			peer.Refuses(t, url+"&create=true", driver.ErrRefused, "permission denied")
			do(t, b, "GRANT "+right+" ON {table} TO CURRENT_USER")
		}
	})
}

func TestErrors(t *testing.T) {
	certificate := fmt.Errorf("a: %w", &net.OpError{Op: "remote error", Err: errors.New("expired certificate")})
	for _, tt := range []struct {
		d    Dialect
		err  error
		want error
	}{
		{Postgres, state("42P01"), driver.ErrRefused}, {Postgres, state("42501"), driver.ErrRefused}, {Postgres, state("28P01"), driver.ErrRefused},
		{Postgres, state("57P01"), driver.ErrUnknown}, {Postgres, state("40001"), driver.ErrUnavailable}, {Postgres, state("53300"), driver.ErrUnknown},
		{MySQL, &gomysql.MySQLError{Number: 1045}, driver.ErrRefused}, {MySQL, fmt.Errorf("x: %w", &gomysql.MySQLError{Number: 1146}), driver.ErrRefused},
		{MySQL, &gomysql.MySQLError{Number: 1047}, driver.ErrUnavailable}, {MySQL, &gomysql.MySQLError{Number: 1205}, driver.ErrUnavailable},
		{MySQL, &gomysql.MySQLError{Number: 1226}, driver.ErrUnavailable}, {Postgres, state("55P03"), driver.ErrUnavailable},
		{MySQL, &gomysql.MySQLError{Number: 1836}, driver.ErrUnavailable}, {MySQL, gomysql.ErrInvalidConn, driver.ErrUnknown},
		{SQLite, code(5), driver.ErrUnknown}, {SQLite, code(261), driver.ErrUnknown}, {SQLite, code(1), driver.ErrRefused}, {SQLite, code(264), driver.ErrRefused},
		{SQLite, mattn{Code: 1}, driver.ErrRefused}, {SQLite, code(10), driver.ErrUnknown}, {Postgres, errors.Join(errors.New("the first host is down"), state("28000")), driver.ErrUnknown},
		{Postgres, context.DeadlineExceeded, driver.ErrUnknown}, {Postgres, fmt.Errorf("x: %w", errors.Join(errors.New("y"), state("28P01"))), driver.ErrRefused},
		{Postgres, errors.Join(state("28000"), errors.New("the second host is down")), driver.ErrUnknown},
		{Postgres, errors.Join(state("28000"), state("28000")), driver.ErrRefused},
		{Postgres, errors.Join(certificate, fmt.Errorf("a: %w (SQLSTATE 28000)", state("28000"))), driver.ErrRefused},
		{Postgres, errors.Join(errors.New("the first host is down"), certificate), driver.ErrUnknown},
	} {
		b := peer.Must(NewBackend(new(sql.DB), tt.d, Options{}))(t)
		require.ErrorIs(t, b.classify(t.Context(), tt.err, driver.ErrUnknown), tt.want, "%v", tt.err)
	}
}

type state string

func (s state) Error() string    { return "SQLSTATE " + string(s) }
func (s state) SQLState() string { return string(s) }

type code int

func (c code) Error() string { return fmt.Sprint("code ", int(c)) }
func (c code) Code() int     { return int(c) }

// mattn is an error as of mattn/go-sqlite3.
type mattn struct{ Code code }

func (m mattn) Error() string { return m.Code.Error() }

func TestWrongPassword(t *testing.T) {
	b := peer.Opened(t, "table+"+servers.SharedPostgres(t).UserURL("nobody", "wrong-secret"))
	defer b.Close()
	peer.SaysOneLine(t, peer.Fails(t, b, request("a", 1)), driver.ErrRefused, "refused: 127.0.0.1:") // one attempt

	for dsn, what := range map[string]string{
		"postgres://nobody@127.0.0.1:1/db?password=secret&sslmode=bogus": "sslmode is invalid",
		"postgres://u:secret@h:54x/db":                                   "cannot parse the DSN: ",
		"postgres://u:secret%zz@h/db":                                    "cannot parse the DSN: failed to parse as URL",
	} {
		db := peer.Must(sql.Open("pgx", dsn))(t)
		b := peer.Must(NewBackend(db, Postgres, Options{}))(t)
		peer.SaysOneLine(t, peer.Fails(t, b, request("a", 1)), driver.ErrRefused, what)
	}
}

// Of several hosts, a silent one and a replica do not keep a client from the primary.
func TestSeveralHosts(t *testing.T) {
	silent := peer.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer func() { _ = silent.Close() }()
	primary := servers.SharedPostgres(t)
	replica := servers.NeedPostgres(t, servers.PostgresOptions{Primary: primary})
	hosts := peer.Via(t, primary.URL(), silent.Addr().String(), replica.Addr(), primary.Addr())
	c := peer.Must(lockport.Open(peer.Within(t, within), "table+"+hosts+"?table=several_hosts&create=true"))(t)
	require.NoError(t, peer.Holds(t, c, "x").Release(t.Context()))
	require.NoError(t, c.Close())
	// An ordinary user learns that there is a replica, but not its state.
	peer.Until(t, func() bool {
		return slices.Contains(peer.Notices(t, "table+"+primary.URL()+"?table=several_hosts"), "replication")
	})
}

// A connection that dies may have sent the statement: it is not sent again.
func TestDeadConnection(t *testing.T) {
	server := new(dying)
	b := peer.Must(NewBackend(sql.OpenDB(server), MySQL, Options{}))(t) // whose claims return no rows
	require.ErrorIs(t, b.Break(t.Context(), "a", someOwner), driver.ErrUnknown)
	peer.Fails(t, b, request("a", 1), driver.ErrUnknown)
	require.Equal(t, 2, server.statements)
	require.NotErrorIs(t, peer.ErrOf(b.Inspect(t.Context(), "a")), driver.ErrUnknown) // it changes nothing
	b.owned = true
	require.NoError(t, b.Close(), "an idle connection that the server has closed concerns no lock")
}

// Claims that wait do not dial a server without end that refuses connections. An idle connection serves meanwhile.
func TestRefusedDials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &dying{undone: state("57014")}
		b := peer.Must(NewBackend(sql.OpenDB(server), Postgres, Options{}))(t)
		defer b.db.Close()
		conn := peer.Must(b.db.Conn(t.Context()))(t)
		server.refusal = errors.New("refused")
		require.ErrorIs(t, peer.ErrOf(b.Inspect(peer.Within(t, 0), "a")), context.DeadlineExceeded) // which begins no pause
		for range 99 {
			time.Sleep(time.Millisecond)
			peer.Fails(t, b, request("a", 1), driver.ErrUnavailable)
		}
		require.Equal(t, 3, server.dials)
		require.NoError(t, conn.Close())
		require.ErrorIs(t, b.Break(t.Context(), "a", someOwner), driver.ErrUnknown)
		require.Equal(t, 1, server.statements)
	})
}

// A statement that the server undid is repeated, but not for ever.
func TestConflict(t *testing.T) {
	for undone, d := range map[error]Dialect{state("40P01"): Postgres, &gomysql.MySQLError{Number: 1213}: MySQL, &gomysql.MySQLError{Number: 1020}: MySQL} {
		server := &dying{undone: undone}
		b := peer.Must(NewBackend(sql.OpenDB(server), d, Options{}))(t)
		err := b.Break(t.Context(), "a", someOwner)
		require.ErrorIs(t, err, driver.ErrUnavailable)
		require.NotErrorIs(t, err, driver.ErrUnknown)
		require.Equal(t, 10, server.statements)
	}
}

// At isolation levels above the default, Postgres undoes a claim that has waited for the row.
func TestConflictOfIsolation(t *testing.T) {
	onServers(t, func(t *testing.T, _ Dialect, b *Backend, url string) {
		for _, level := range []string{"repeatable read", "serializable"} {
			do(t, b, "INSERT INTO {table} VALUES (?, '', 1, 1, 1, '', 0)", level)
			other := peer.Opened(t, url+"&default_transaction_isolation="+strings.ReplaceAll(level, " ", "%20")).(*Backend)
			defer other.Close()
			tx := lockRow(t, b, level)
			done := make(chan error, 1)
			go func() { done <- peer.ErrOf(other.TryAcquire(t.Context(), request(level, 1))) }()
			require.Eventually(t, func() bool {
				return do(t, b, "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'INSERT INTO {table}%'")[0][0] == "1"
			}, within, time.Millisecond)
			require.NoError(t, tx.Commit())
			require.NoError(t, <-done)
		}
	}, Postgres)
}

// A server that accepts no writes is unavailable: it may be a primary that was replaced. The next attempt opens a connection. Check refuses the server.
func TestReadOnly(t *testing.T) {
	onServers(t, func(t *testing.T, d Dialect, b *Backend, _ string) {
		b.db.SetMaxOpenConns(1)
		readOnly := func() {
			do(t, b, []string{"SET default_transaction_read_only = on", "SET SESSION TRANSACTION READ ONLY"}[d])
		}
		readOnly()
		peer.Fails(t, b, request("a", 1), driver.ErrUnavailable)
		lease := peer.Takes(t, b, request("a", 2))
		readOnly()
		require.ErrorIs(t, peer.ErrOf(driver.Renew(t.Context(), b, lease)), driver.ErrUnavailable)
		peer.Extends(t, b, lease)
		readOnly()
		require.ErrorIs(t, lease.Release(t.Context()), driver.ErrUnavailable)
		require.NoError(t, lease.Release(t.Context()))
		readOnly()
		require.ErrorIs(t, peer.ErrOf(b.Check(t.Context())), driver.ErrRefused)
	})
}

// dying is a driver whose connections die of each statement, or with undone fail with it. With refusal, it opens no connections.
type dying struct {
	sqldriver.Connector
	sqldriver.Conn
	refusal, undone   error
	statements, dials int
}

func (d *dying) Connect(context.Context) (sqldriver.Conn, error) {
	d.dials++
	return d, d.refusal
}

func (d *dying) ExecContext(context.Context, string, []sqldriver.NamedValue) (sqldriver.Result, error) {
	d.statements++
	return nil, cmp.Or(d.undone, sqldriver.ErrBadConn)
}

func (*dying) QueryContext(context.Context, string, []sqldriver.NamedValue) (sqldriver.Rows, error) {
	return nil, errors.New("nothing to read")
}

func (*dying) Close() error { return sqldriver.ErrBadConn }
