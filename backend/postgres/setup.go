package postgres

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// sideLockTimeout bounds how long a session waits for a side lock, which whoever frees a name holds for as long as one statement takes.
const sideLockTimeout = 100 * time.Millisecond

// waitLockTimeout is for how long one statement waits in the server's queue. Then it is repeated: a statement keeps vacuum from removing what was
// deleted since it began.
const waitLockTimeout = time.Minute

// setUp makes c a session of ours.
func (s *server) setUp(ctx context.Context, c *pgx.Conn, f facts, label string) error {
	var sql strings.Builder
	sql.WriteString("SELECT ")
	for _, setting := range s.settings(f.version, label) {
		fmt.Fprintf(&sql, "set_config(%s, %s, false), ", quote(setting[0]), quote(setting[1]))
	}
	// Elsewhere it can only be 0, at least in some versions. It ends a session that waits for a lock and whose client is gone.
	fmt.Fprintf(&sql, "set_config('client_connection_check_interval', CASE WHEN version() LIKE '%%linux%%' THEN '%s' ELSE '0' END, false)",
		milliseconds(max(s.ttl/4, 10*time.Millisecond)))
	sql.WriteString("; LISTEN " + channel)
	if err := run(ctx, c, sql.String()); err != nil {
		return err
	}
	return s.tokens.prepare(ctx, c)
}

// settings are those of our sessions, whatever the server's and the role's are. The server ends a session of which it has heard nothing for the TTL, and
// must not before. Where the network is gone, its keepalives end one that waits, after the TTL and less than as long again.
func (s *server) settings(version int, label string) [][2]string {
	seconds := func(d time.Duration) string { return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10) }
	settings := [][2]string{
		{"idle_session_timeout", milliseconds(s.ttl)},
		{"tcp_keepalives_idle", seconds(s.ttl / 2)},
		{"tcp_keepalives_interval", seconds(s.ttl / 6)},
		{"tcp_keepalives_count", "3"},
		{"tcp_user_timeout", milliseconds(s.ttl + s.ttl/4)},
		{"statement_timeout", "0"},
		{"idle_in_transaction_session_timeout", "0"},
		{"lock_timeout", milliseconds(sideLockTimeout)},
		{"default_transaction_read_only", "off"},
		{"default_transaction_isolation", "read committed"},
		{"default_transaction_deferrable", "off"},
		{"synchronous_commit", "off"},
		{"plan_cache_mode", "force_generic_plan"},
		{"client_min_messages", "error"},
		{"application_name", applicationName(label)},
	}
	if version >= 17 {
		settings = append(settings, [2]string{"transaction_timeout", "0"})
	}
	return settings
}

func milliseconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Millisecond-1)/time.Millisecond), 10)
}

// quote makes a string literal of text.
func quote(text string) string {
	return "E'" + strings.NewReplacer(`\`, `\\`, `'`, `''`).Replace(text) + "'"
}

// applicationPrefix begins the application_name of our sessions.
const applicationPrefix = "lockport"

// applicationName is what a session of ours is called in pg_stat_activity, which has room for 63 bytes.
func applicationName(label string) string {
	name := strings.TrimSpace(applicationPrefix + " " + label)
	return name[:min(len(name), 63)]
}
