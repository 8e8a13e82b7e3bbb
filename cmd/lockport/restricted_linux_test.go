package main

import (
	"context"
	"database/sql"
	"strings"
	"testing"

	_ "github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/internal/lab/servers"
)

// refusal is a word of the line that says why a user must not do something.
type refusal struct {
	user, word string
	args       []string
}

// restricted are users with few rights: the statements that make them, those who may look at locks, and what the others are refused.
var restricted = map[string]struct {
	statements, mayLook []string
	refused             []refusal
}{
	"redis": {[]string{"ACL SETUSER reader on >secret ~* +get +ping +hello"}, nil, []refusal{
		{"reader", "NOPERM", []string{"status", "restricted"}},
		{"reader", "NOPERM", []string{"status"}},
		{"reader", "NOPERM", []string{"break", "--yes", "restricted"}},
	}},
	"postgres": {[]string{
		"CREATE ROLE looker LOGIN PASSWORD 'secret'", "CREATE ROLE nobody LOGIN PASSWORD 'secret' CONNECTION LIMIT 0",
	}, []string{"looker"}, []refusal{
		{"looker", "grant the privilege", []string{"break", "--yes", "restricted"}},
		{"nobody", "too many connections", []string{"status", "restricted"}},
	}},
	"mysql": {[]string{
		"CREATE USER looker@'%' IDENTIFIED BY 'secret'", "CREATE USER other@'%' IDENTIFIED BY 'secret'",
		"GRANT USAGE ON *.* TO looker@'%'", "GRANT SELECT, INSERT, UPDATE, DELETE, CREATE ON lockport.* TO other@'%'",
		"GRANT SELECT ON lockport.lockport_fence TO looker@'%'", "CREATE USER nobody@'%' IDENTIFIED BY 'secret'",
	}, []string{"looker", "other"}, []refusal{
		{"looker", "CONNECTION ADMIN", []string{"break", "--yes", "restricted"}},
		{"nobody", "may not use this database", []string{"status", "restricted"}},
		{"other", "CONNECTION ADMIN", []string{"break", "--yes", "restricted"}},
	}},
}

// administrator returns functions that execute a statement as the administrator of a shared server, and that make the URL of a user.
func administrator(t *testing.T, scheme string) (execute func(statement string) error, asUser func(user, password string) string) {
	switch scheme {
	case "redis":
		server := servers.SharedRedis(t)
		return func(statement string) error {
			var words []any
			for word := range strings.FieldsSeq(statement) {
				words = append(words, word)
			}
			_, err := server.Do(t.Context(), words...)
			return err
		}, server.UserURL
	case "postgres":
		server := servers.SharedPostgres(t)
		admin, err := pgx.Connect(t.Context(), server.AdminURL())
		require.NoError(t, err)
		t.Cleanup(func() { _ = admin.Close(context.Background()) })
		return func(statement string) error { _, err := admin.Exec(t.Context(), statement); return err }, server.UserURL
	default:
		server := servers.SharedMariaDB(t)
		admin, err := sql.Open("mysql", server.AdminDSN())
		require.NoError(t, err)
		t.Cleanup(func() { _ = admin.Close() })
		return func(statement string) error { _, err := admin.ExecContext(t.Context(), statement); return err }, server.UserURL
	}
}

// testRestrictedUsers: a user who may not look is told so in one line, and so is one who may look and not break.
func testRestrictedUsers(t *testing.T, url string) {
	users := restricted[scheme(url)]
	holder, _ := holding(t, url, "restricted")
	execute, asUser := administrator(t, scheme(url))
	for _, statement := range users.statements {
		require.NoError(t, execute(statement))
	}
	for _, user := range users.mayLook {
		require.Equal(t, holder.Process.Pid, statusJSON(t, asUser(user, "secret"), "restricted")[0].PID)
	}
	for _, r := range users.refused {
		stdout, stderr := ran(t, 69, asUser(r.user, "secret"), r.args...)
		require.Empty(t, stdout)
		lines := strings.Split(strings.TrimSpace(stderr), "\n")
		require.Regexp(t, `^lockport: [^\n]+$`, lines[len(lines)-1])
		require.Contains(t, lines[len(lines)-1], r.word)
		require.NotContains(t, stderr, "secret")
	}
	require.False(t, holder.ended())
}
