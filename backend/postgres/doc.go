// Package postgres implements locks as advisory locks of PostgreSQL 14 or newer: for teams that have a database and want no other server.
//
// # Guarantees
//
//   - Exclusion among all clients of a database that use the same keys, on its primary.
//   - A hold ends when it is released, or when its session at the server ends. The session ends at once if its connection closes or the server
//     restarts, and after the TTL if the network is gone. After a silence the holder knows before the next grant; otherwise it may know just after.
//   - A holder whose session ends learns of it within 1 s, usually within milliseconds; at its deadline if its link is silent.
//   - Fencing tokens rise for each name, also across crashes and restarts.
//   - One session carries the locks that a client gets without waiting, and requests of many goroutines go to the server together.
//   - Readers (lockport.Shared) and writers wait in the server's queue, where neither overtakes the other. Of n permits (lockport.Permits) at most n
//     are held. A waiter goes to the end of the queue every minute.
//   - Waiters in the server's queue are granted the lock at once; other waiters are notified by the release.
//
// # Non-guarantees
//
//   - A fail-over to a replica loses all locks: replication does not copy them. Their sessions end with the old primary. If the old primary lives on
//     unnoticed, both servers grant.
//   - Names are hashed to 64 bits: among a million names, two share a lock with a probability of 1 in 37 million.
//   - All locks of a session are lost together. All locks of a client share one TTL.
//   - Waiting clients have no order beyond the first Blockers names, and waiters for permits have none.
//   - PgBouncer and other poolers are refused in transaction or statement mode, Pgpool-II and CockroachDB always.
//     Behind a proxy, the server logs an error for each client: it does not know pool_version, which finds Pgpool-II.
//
// # URL
//
// "postgres://user:password@host:port/database?ttl=15s": several hosts separated by commas, sslmode and other parameters of libpq, and those of
// this package: ttl, blockers, prefix, exact, schema. The environment (PGHOST and the like) is not read,
// but pgx reads the service file if PGSERVICE is set.
//
// # Server requirements
//
// PostgreSQL 14 or newer, a role that may connect, and a sequence and a table. The first client creates them if it may: see Options.Schema.
package postgres
