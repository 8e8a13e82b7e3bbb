// Package mysql implements locks on MariaDB 10.5 and MySQL 8.0, or newer, with GET_LOCK, through go-sql-driver.
//
// # Guarantees
//
//   - Exclusion among all clients of one server that take a lock by the same name, whatever database they are in.
//   - A hold ends when it is released, or when its session ends: at the latest when the server has heard nothing from it for the TTL, which is the
//     session's wait_timeout (1.5 s later with a thread pool). After a silence the holder knows before the server; otherwise up to a second after.
//   - Every statement goes through the caller's *sql.DB.
//   - Holders hear of their session's end (KILL, the server's death, a cut connection) within a second, also while it is idle.
//   - Fencing tokens rise for each name, also across a restart. If the data are lost, they rise by the server's clock.
//   - One session carries all locks that a client acquired without waiting. Requests of many goroutines go together.
//
// # Non-guarantees
//
//   - GET_LOCK locks on one server. A fail-over to a replica loses all locks, and while the old primary lives, there may be two holders. If it becomes
//     read-only, its holders know within a second. Galera, NDB, replication groups, TiDB, Vitess and ProxySQL are refused. Connect to the server itself.
//   - The first Options.Blockers names that processes wait for have the server's order. Waiters for other names have none, and poll once a second.
//   - Readers (lockport.Shared) are refused: GET_LOCK has no shared mode. Permits are granted in no order; waiters poll once a second.
//   - A TTL is a whole number of seconds, and the same for all locks of a client.
//
// # URL
//
// "mysql://user:password@host:3306/database". Parameters: ttl, blockers, prefix, exact, table, tokens, socket, tls, and with TLS ca, cert, key,
// servername.
//
// # Server requirements
//
// For fencing tokens: a database in which the user may create a table, or use an existing one (SELECT, INSERT, UPDATE, DELETE), and
// innodb_flush_log_at_trx_commit = 1, its default. Without tokens: nothing.
package mysql
