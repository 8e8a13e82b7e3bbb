// Package sqlfence guards data in PostgreSQL, MySQL and MariaDB: it rolls back a transaction whose fencing token is older than one already seen.
// The transactions are your own, of database/sql with any driver or of pgx. Package fence has the rules, guarantees and limits of all fences.
//
// # Recipe
//
//   - Create the fence's table with [Fence.Schema], in the database of the guarded data.
//   - Begin each transaction of a holder with [Fence.Guard] or [Fence.GuardPgx] as its first statement. Then read, write and commit. A holder that
//     reads elsewhere calls [Fence.Register] first.
//
// The name is the lock's name, or any other whose tokens all come from one lock.
//
// # Limits
//
//   - What a transaction reads before Guard may be stale, and is not refused. On MySQL under REPEATABLE READ, the default, the first read makes the
//     snapshot for all reads, so reads after Guard are then stale too. Do not use START TRANSACTION WITH CONSISTENT SNAPSHOT. On Postgres under
//     REPEATABLE READ and SERIALIZABLE, a Guard that had to wait fails with a serialization failure (40001); retry the transaction.
//   - Guarded transactions on one name run one after another. An open one, even of a paused holder, blocks the newer holder's Guard until the
//     context of that Guard ends. Keep transactions short, and let the server end idle ones: idle_in_transaction_session_timeout on Postgres,
//     idle_transaction_timeout on MariaDB, wait_timeout on MySQL.
//   - The guard ends with the transaction. On MySQL that can be before Commit, unnoticed by database/sql. A deadlock (1213) rolls it back; so do a
//     lock wait timeout with innodb_rollback_on_timeout, and error 1020 with MariaDB's innodb_snapshot_isolation. A statement that commits
//     implicitly (CREATE TABLE, TRUNCATE, LOCK TABLES) commits it. Later statements are not guarded. Roll back after any error, and avoid such
//     statements.
//   - One server locks the rows. On Galera, and in a replication group with several primaries, send all guarded transactions of a name to one node.
//   - If a server forgets a commit, it forgets the registration too: in a crash (synchronous_commit = off on Postgres,
//     innodb_flush_log_at_trx_commit other than 1 on MySQL) or in a fail-over to a replica that lacks it. Reads from a replica may be stale: a
//     holder must read where it writes.
//   - MySQL's tables must be InnoDB's; other engines have no transactions.
package sqlfence
