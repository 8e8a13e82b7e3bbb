// Package redis implements locks on Redis 6.2 or newer, through go-redis: on one server, behind Sentinel or in a Cluster. For forks of
// Redis see docs/servers.md.
//
// # Guarantees
//
//   - Exclusion among all clients of one server while it keeps its data and its clock does not jump. The lock's key alone decides, so
//     clients in other languages that lock with SET NX PX are excluded too.
//   - A hold ends on release, or when its TTL has passed since it was last set or confirmed. A holder that cannot reach the server
//     knows this before the TTL ends.
//   - Fencing tokens rise for each name, even across a fail-over, a restart without data or a clock that is set back. The servers' clocks
//     must differ by less than a fail-over takes.
//   - Waiting clients are served FIFO if they answer within 250 ms of their turn. One connection per client carries the messages that
//     wake it, for any number of names. Waiters also poll every 5 s in case a message is lost.
//   - A holder learns at its next renewal that its key was deleted or overwritten: within a third of the TTL plus 100 ms.
//   - Readers (lockport.Shared) hold a name together, but never with a writer, foreign writers included. At most n of n permits
//     (lockport.Permits) are held at a time.
//   - A claim is one request, and so is a release. Requests of many goroutines share a pipeline. One script renews 350 locks.
//
// # Non-guarantees
//
//   - A fail-over (Sentinel, Cluster, a managed service) can forget a held lock and grant it again: replication is asynchronous. The
//     option Replicas makes this rare. Eviction, or a restart of a server that does not save every write, can forget locks too. Then only
//     the token protects.
//   - A server whose clock jumps ends locks early or late.
//   - Foreign clients do not queue and may overtake. They announce no release, so waiters behind them poll every 100 ms.
//   - Ring clients are refused. Check refuses a replica.
//
// # URL
//
// "redis://user:password@host:port/db", "redis+sentinel://host:port/db?master_name=…&addr=host:port…" and
// "redis+cluster://host:port?addr=host:port…"; "rediss…" for TLS. In a Sentinel URL, user and password are for the sentinels; the
// parameters username and password are for Redis. Parameters: ttl, prefix, replicas, wait_timeout, and those of go-redis' ParseURL,
// ParseFailoverURL and ParseClusterURL.
//
// # Server requirements
//
// Redis 6.2 or newer, and a maxmemory-policy that evicts nothing. The user needs access to the keys lockport:* and lockport.side:* (or
// another prefix) and to the scripts' commands; docs/backends/redis.md has an ACL.
package redis
