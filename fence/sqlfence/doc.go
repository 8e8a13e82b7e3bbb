// Package sqlfence guards data in PostgreSQL, MySQL and MariaDB: a transaction whose fencing token is older than one that was seen is rolled back. It works on
// your own transactions, of database/sql with any driver or of pgx. Package fence has the rules, guarantees and limits of all fences.
//
// # Recipe
//
//   - Create the fence's table with [Fence.Schema], in the database of the data that it guards.
//   - Begin each transaction of a holder with [Fence.Guard] or [Fence.GuardPgx], as its first statement; then read, write and commit. A holder that reads
//     elsewhere calls [Fence.Register] first.
//
// The name is the lock's name, or any other, as long as one name's tokens come from one lock. A table that is to have its tokens in a column of its own
// needs no package: docs/fencing.md has the statements.
//
// Guard locks the name's row until the transaction ends. So an older holder's transaction has either committed before Guard returns, and what is read
// afterwards has its writes, or is refused. A transaction that Guard refused cannot be committed, also by a caller who overlooks the error.
//
// # Limits
//
//   - What a transaction reads before Guard may be old, and is not refused. On MySQL, where a transaction's reads all come from the snapshot that
//     the first of them made (REPEATABLE READ, the default), that holds for what it reads after Guard too; do not use START TRANSACTION WITH CONSISTENT
//     SNAPSHOT. On Postgres, under REPEATABLE READ and SERIALIZABLE, a Guard that had to wait fails with a serialization failure (40001); try the
//     transaction again.
//   - Guarded transactions on one name run one after another. One that stays open, also of a paused holder, keeps the newer holder waiting until its context
//     ends. Keep them short, and let the server end idle ones: idle_in_transaction_session_timeout on Postgres, idle_transaction_timeout on MariaDB,
//     wait_timeout on MySQL.
//   - The guard ends with the transaction, which on MySQL can be before Commit, without database/sql noticing: a deadlock (1213; with
//     innodb_rollback_on_timeout also a lock wait that timed out) rolls all of it back, and a statement that commits implicitly (CREATE TABLE,
//     TRUNCATE, LOCK TABLES) commits it. What follows is not guarded. Roll back after any error, and leave such statements out.
//   - One server locks the rows. On Galera, and in a replication group with several primaries, the guarded transactions of a name go to one node.
//   - A commit that the server forgets in a crash (synchronous_commit = off on Postgres, innodb_flush_log_at_trx_commit other than 1 on MySQL) or in a
//     fail-over to a replica that had not received it takes the registration with it. Reads from a replica may be old: a holder reads where it writes.
//   - MySQL's tables must be InnoDB's; others have no transactions.
package sqlfence
