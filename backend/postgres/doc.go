// Package postgres keeps locks in a PostgreSQL 14 or newer, as advisory locks: for teams that have a database and want no other server.
//
// # Guarantees
//
//   - Exclusion among all clients of a database that use the same keys, on its primary.
//   - A hold ends when it was released, or when its session at the server has ended: at once where its connection is closed or the server restarts, and
//     after the TTL of silence where the network is gone. The holder knows before.
//   - A holder whose session ends is told within milliseconds: somebody always listens to its connection.
//   - Fencing tokens rise for each name, over crashes and restarts too.
//   - One session carries all locks of a client, and requests of many goroutines go to the server together. A client has at most 1 + Blockers
//     connections, of its own: a caller's pool is not used up.
//   - Readers (lockport.Shared) and writers wait in the server's queue, where neither overtakes the other. Of n permits (lockport.Permits) never more are held.
//   - Those who wait in the server's queue are granted the lock at once; the others are notified by the release.
//
// # Non-guarantees
//
//   - A fail-over to a replica forgets all locks: replication does not know them. Their sessions end with the old primary, if that does; if it lives on
//     unnoticed, both grant.
//   - Names are hashed to 64 bits: among a million names two share a lock with a probability of 1 in 37 million.
//   - All locks of a client are lost together, when its session is. There is one TTL for them.
//   - There is no order among waiting clients beyond the first Blockers names, nor among those that wait for permits.
//   - PgBouncer and the like are refused in transaction or statement mode.
//
// # URL
//
// "postgres://user:password@host:port/database?ttl=15s": several hosts with commas between them, sslmode and other parameters of libpq, and ours: ttl, blockers, prefix,
// exact, schema. The environment (PGHOST and the like) is not read.
//
// # Server requirements
//
// PostgreSQL 14 or newer, a role that may connect, and a sequence and a table, which the first client makes if it may: see Options.Schema.
//
// # Example
//
//	client, err := postgres.New(pool, postgres.Options{})
//	…
//	lock, err := client.Acquire(ctx, "nightly-report")
package postgres
