package main

import (
	"database/sql"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/internal/lab/servers"
)

// testForeignHolders: of a holder that is no client of lockport, status says so, and break does not promise that it stops.
func testForeignHolders(t *testing.T, url string) {
	name, holder, isMySQL := "theirs", `"me, \x1b[31mthe shell"`, scheme(url) == "mysql"
	if isMySQL {
		db, err := sql.Open("mysql", servers.SharedMariaDB(t).DSN())
		require.NoError(t, err)
		t.Cleanup(func() { _ = db.Close() })
		db.SetMaxOpenConns(1)
		var id, got int
		require.NoError(t, db.QueryRowContext(t.Context(), "SELECT CONNECTION_ID(), GET_LOCK('theirs', 0)").Scan(&id, &got))
		require.Equal(t, 1, got)
		url, holder = url+"?exact=true", fmt.Sprint("connection:", id)
	} else {
		_, err := servers.SharedRedis(t).Do(t.Context(), "SET", "lockport:theirs", "me, \x1b[31mthe shell")
		require.NoError(t, err)
	}
	stdout, _ := ran(t, 0, url, "status", "--", name)
	require.Contains(t, stdout, "foreign: "+holder+"\n")
	st := statusJSON(t, url, "--", name)[0]
	require.True(t, st.Held && st.Foreign)
	require.Empty(t, st.Host+st.Label)
	require.Zero(t, st.Token)
	listed := slices.ContainsFunc(statusJSON(t, url), func(l lockJSON) bool { return l.Name == name && l.Foreign })
	require.Equal(t, !isMySQL, listed, "MySQL's names are in no table of ours")
	args := []string{"break", "--yes", "--", name}
	if isMySQL {
		_, stderr := ran(t, 69, url, args...)
		require.Contains(t, stderr, "would be lost; to end it anyway, give --all-of-session", "what else that session has")
		args = slices.Insert(args, 1, "--all-of-session")
	}
	_, stderr := ran(t, 0, url, args...)
	require.Contains(t, stderr, "it may be at work still")
	ran(t, 1, url, "status", "--", name)
}
