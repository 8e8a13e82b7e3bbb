package postgres

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/servers"
)

// examined is what Examine finds, and the IDs of its notices, "?" behind those that are unknown. That about the version depends on what is installed.
func examined(t *testing.T, rawURL string) (driver.Examination, []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	b := backendAt(t, rawURL)
	_, err := b.Check(ctx)
	require.NoError(t, err)
	found, err := b.Examine(ctx, 0)
	require.NoError(t, err)
	var ids []string
	for _, n := range found.Notices {
		require.NotEmpty(t, n.Text)
		require.NotEmpty(t, n.Remedy)
		id := n.ID
		if n.Unknown {
			id += "?"
		}
		if id != "end-of-life" {
			ids = append(ids, id)
		}
	}
	return found, ids
}

func TestExamine(t *testing.T) {
	t.Parallel()
	p := servers.NeedPostgres(t, servers.PostgresOptions{Settings: map[string]string{"max_connections": "20"}})
	found, ids := examined(t, with(t, p.URL(), "ttl", "7s"))
	require.Empty(t, ids)
	require.Regexp(t, `^PostgreSQL [0-9]+(\.[0-9]+|beta[0-9]+|rc[0-9]+)$`, found.Server)
	require.Equal(t, 7*time.Second, found.TTL)

	// A client with so many connections is not to be had here.
	_, ids = examined(t, with(t, p.URL(), "blockers", "17"))
	require.Equal(t, []string{"connections"}, ids)

	root := admin(t, p.AdminURL())
	execute(t, root, "ALTER ROLE lockport CONNECTION LIMIT 5")
	found, ids = examined(t, p.URL())
	require.Equal(t, []string{"connections"}, ids)
	require.Contains(t, found.Notices[len(found.Notices)-1].Text, "For this role, ")
	execute(t, root, "ALTER ROLE lockport CONNECTION LIMIT -1; ALTER DATABASE lockport CONNECTION LIMIT 5")
	found, ids = examined(t, p.URL())
	require.Equal(t, []string{"connections"}, ids)
	require.Contains(t, found.Notices[len(found.Notices)-1].Text, "For this database, ")
	execute(t, root, "ALTER DATABASE lockport CONNECTION LIMIT -1")

	for _, change := range []string{"CACHE 20", "CACHE 1 INCREMENT -1 START 5", "INCREMENT 1 CYCLE"} {
		execute(t, root, "ALTER SEQUENCE public.lockport_token "+change)
		_, ids = examined(t, p.URL())
		require.Equal(t, []string{"sequence"}, ids, change)
	}
	execute(t, root, `ALTER SEQUENCE "public".lockport_token CACHE 1 INCREMENT 1 NO CYCLE`)
	_, ids = examined(t, p.URL())
	require.Empty(t, ids)
}

func TestExamineReplication(t *testing.T) {
	t.Parallel()
	primary := servers.NeedPostgres(t, servers.PostgresOptions{})
	servers.NeedPostgres(t, servers.PostgresOptions{Primary: primary})
	_, ids := examined(t, primary.URL())
	require.Equal(t, []string{"replication"}, ids)
}

// What the server does not let a role see is unknown.
func TestExamineAsARestrictedRole(t *testing.T) {
	t.Parallel()
	p := servers.NeedPostgres(t, servers.PostgresOptions{})
	root := admin(t, p.AdminURL())
	execute(t, root, "REVOKE SELECT ON pg_stat_replication, pg_stat_database FROM PUBLIC; REVOKE SELECT ON pg_sequence FROM PUBLIC")
	_, ids := examined(t, p.URL())
	require.Equal(t, []string{"connections?", "replication?", "sequence?"}, ids)
}

func TestExamineThroughAPooler(t *testing.T) {
	t.Parallel()
	p := servers.NeedPostgres(t, servers.PostgresOptions{})
	_, ids := examined(t, servers.NeedPgBouncer(t, servers.PgBouncerOptions{Server: p}).URL())
	require.Empty(t, ids)
}

func TestJudgeConnections(t *testing.T) {
	require.Empty(t, judgeConnections([]int64{97, 10, -1, 9, -1, 10}, 5))
	require.Len(t, judgeConnections([]int64{97, 93, -1, 9, -1, 10}, 5), 1)
	require.Contains(t, judgeConnections([]int64{97, 10, 12, 9, -1, 10}, 5)[0].Text, "For this role, 9 of the server's 12")
	require.Contains(t, judgeConnections([]int64{97, 10, -1, 9, 14, 10}, 5)[0].Text, "For this database, 10 of")
}

func TestMaintainedVersions(t *testing.T) {
	for i := 1; i < len(maintained); i++ {
		require.Greater(t, maintained[i].From[0], maintained[i-1].From[0])
	}
	require.LessOrEqual(t, maintained[0].From[0], minVersion, "every version that is not refused is in the table")
}

func TestExamineIsBounded(t *testing.T) {
	t.Parallel()
	p := servers.NeedPostgres(t, servers.PostgresOptions{})
	b := backendAt(t, p.URL())
	require.NoError(t, p.Freeze())
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := b.Examine(ctx, 0)
	require.ErrorIs(t, err, driver.ErrUnavailable)
	require.NoError(t, p.Kill())
	_, err = b.Examine(t.Context(), 0)
	require.ErrorIs(t, err, driver.ErrUnavailable)
	require.False(t, strings.Contains(err.Error(), "\n"))
}
