package main

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/internal/lab/servers"
)

// Locks in a table: doctor prints how a missing table is made, create=true makes it, and run, status and break work on it.
func TestTable(t *testing.T) {
	url := "table+" + servers.SharedMariaDB(t).URL() + "?table=of_the_command"
	_, stderr := ran(t, 69, url, "doctor")
	require.Contains(t, stderr, "CREATE TABLE IF NOT EXISTS of_the_command (")
	_, stderr = ran(t, 69, url, "run", "a", "--", "echo", "no")
	require.Regexp(t, `^[^\n]*make the table first[^\n]*\n$`, stderr)
	ran(t, 0, url+"&create=true", "run", "a", "--", "true")

	holder, token := holding(t, url, "a")
	_, stdout, _ := output(t, url, "status", "--json", "a")
	require.Contains(t, stdout, fmt.Sprintf(`"pid": %d`, holder.Process.Pid))
	require.Contains(t, stdout, `"token": "`+token+`"`)
	ran(t, 75, url, "run", "-n", "a", "--", "true")
	ran(t, 0, url, "break", "--yes", "a")
	ran(t, 0, url, "run", "-w", "5s", "a", "--", "true")
	refuses(t, "table+sqlite:///tmp/locks.db", 64, "the command lockport has none", "run", "a", "--", "true")
}
