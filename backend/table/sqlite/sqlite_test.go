package sqlite

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"

	"github.com/lockport/lockport/backend/table"
	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
)

func open(ctx context.Context, rawURL string) (driver.Backend, error) {
	b, err := peer.Open(ctx, rawURL)
	if err != nil {
		return nil, err
	}
	_, err = b.(driver.Checker).Check(ctx) // creates the table
	return b, err
}

func TestMain(m *testing.M) {
	conformance.WorkerMain(open)
	os.Exit(m.Run())
}

// newFile creates a table in a new file. It returns the file's URL, and a connection for administration.
func newFile(t *testing.T) (url string, db *sql.DB) {
	path := filepath.Join(t.TempDir(), "locks.db")
	db = peer.Must(sql.Open("sqlite", path+"?_pragma=busy_timeout(5000)"))(t)
	t.Cleanup(func() { _ = db.Close() })
	require.NoError(t, table.CreateTable(t.Context(), db, table.SQLite, table.Options{}))
	return "table+sqlite://" + path + "?_pragma=journal_mode(WAL)&_pragma=synchronous(OFF)", db
}

func TestConformance(t *testing.T) {
	url, db := newFile(t)
	exec := func(ctx context.Context, statement, name string) error {
		return peer.ErrOf(db.ExecContext(ctx, statement, name))
	}
	faults := conformance.Faults{
		Remove: func(ctx context.Context, name string) error {
			return exec(ctx, "DELETE FROM lockport_locks WHERE name = ?", name)
		},
		Overwrite: func(ctx context.Context, name string) error {
			return exec(ctx, "UPDATE lockport_locks SET owner = 'somebody else', expires = 9000000000000000 WHERE name = ?", name)
		},
		Leftovers: func(ctx context.Context, prefix string) ([]string, error) {
			var names sql.NullString
			err := db.QueryRowContext(ctx, "SELECT group_concat(name) FROM lockport_locks WHERE owner <> '' AND name LIKE ? || '%' AND expires > unixepoch() * 1000000", prefix).Scan(&names)
			if err != nil || !names.Valid {
				return nil, err
			}
			return []string{names.String}, nil
		},
	}
	lane := conformance.Lane{Target: url, Faults: faults}
	// Cases specific to SQLite: its statements, and a file shared by processes. make soak runs every case.
	mine := conformance.Match(func(c conformance.Case) bool {
		return os.Getenv("LOCKPORT_TEST_FULL") != "" || c.Quick || c.Group == "crash" || c.ID() == "exclusion/processes"
	})
	conformance.Test(t, conformance.Config{Open: open, Target: url, MinTTL: 3 * time.Second, Faults: faults, Lanes: []conformance.Lane{lane}},
		mine, conformance.Parallel(3)) // a file has one writer at a time: more parallel cases would wait for each other
}

// Rows of the first release are readable.
func TestLayoutGolden(t *testing.T) {
	url, db := newFile(t)
	const owner = "0123456789abcdef0123456789abcdef:web-1/4242/worker/89abcdef"
	now := time.Now().UnixMicro()
	_, err := db.Exec(`INSERT INTO lockport_locks (name, owner, token, since, expires, abandoned, abandoned_at) VALUES
		('held', ?1, 7, ?2 - 500000000, ?2 + 60000000, '', 0), ('expired', ?1, 9000000000000000, 0, ?2 - 1, '', 0),
		('abandoned', '', 0, 0, ?2, '0123456789abcdef0123456789abcdef', ?2)`, owner, now)
	require.NoError(t, err)
	b := peer.Must(open(t.Context(), url))(t)
	defer b.Close()
	st := peer.Shows(t, b.(driver.Inspector), "held")
	require.Equal(t, []any{true, owner, uint64(7)}, []any{st.Held, st.Owner, st.Token})
	require.WithinDuration(t, time.Now().Add(-500*time.Second), st.Since, 30*time.Second)
	lease := peer.Takes(t, b, driver.Request{Name: "expired", Owner: owner, TTL: time.Minute})
	require.EqualValues(t, 9000000000000001, lease.Grant().Token)
	peer.Fails(t, b, driver.Request{Name: "abandoned", Owner: owner, TTL: time.Minute}, driver.ErrHeld)
	// With a write-ahead log, a crash can undo commits unless each is synced.
	require.Equal(t, []string{"durability"}, peer.Notices(t, strings.Replace(url, "OFF", "NORMAL", 1)))
	require.Empty(t, peer.Notices(t, strings.Replace(url, "OFF", "FULL", 1)))
}

// A statement waits for another process's, whatever other pragmas the URL has.
func TestBusyTimeout(t *testing.T) {
	url, db := newFile(t)
	b := peer.Must(open(t.Context(), url))(t)
	defer b.Close()
	writer := peer.Must(db.Conn(t.Context()))(t)
	require.NoError(t, peer.ErrOf(writer.ExecContext(t.Context(), "BEGIN IMMEDIATE")))
	ctx := peer.Within(t, 100*time.Millisecond)
	_, err := b.TryAcquire(ctx, driver.Request{Name: "a", Owner: "0123456789abcdef0123456789abcdef", TTL: time.Minute})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, writer.Close())
}
