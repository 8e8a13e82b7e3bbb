// Package redis keeps locks on Redis 6.2 or newer, and on what speaks its protocol and runs its scripts: on one server, behind Sentinel,
// or in a Cluster, through go-redis.
//
// # Guarantees
//
//   - Exclusion among all clients of one server, lockport's and those of other languages that take a lock with SET NX PX, as long as the
//     server keeps its data and its clock does not jump. The lock's key alone decides.
//   - A hold ends when it was released, or when its TTL has passed since it was last set or confirmed. A holder that the server does not
//     hear from knows that before.
//   - Fencing tokens rise for each name, also across a fail-over, a restart without data and a clock that was set back, as long as the
//     clocks of the servers agree better than a fail-over takes.
//   - Waiting clients are served first in, first out, as long as they answer within 250 ms when it is their turn. They are woken by a
//     message on one connection for each client, whatever the number of names, and look again every 5 s in case one is lost.
//   - A holder whose key is deleted or overwritten is told at its next renewal: within a third of the TTL and 100 ms.
//   - Readers (lockport.Shared) hold a name together, and never beside a writer, also not beside one of another language. Of n permits
//     (lockport.Permits) n at most are held at a time.
//   - A claim is one request, a release another. What many goroutines ask for goes as one pipeline, and 512 locks are renewed by one
//     script.
//
// # Non-guarantees
//
//   - A fail-over (Sentinel, Cluster, a managed service) can forget a lock that is held, and grant it again: replication is asynchronous.
//     The option Replicas makes that rare. So can a restart of a server that does not save every write, and eviction. Only the
//     token protects then.
//   - A server whose clock jumps ends locks early or late.
//   - Foreign clients do not queue: they may overtake, and are polled for every 100 ms, since they tell nobody of a release.
//   - Reading from replicas, and Ring clients, are refused.
//
// # URL
//
// "redis://user:password@host:port/db", "redis+sentinel://host:port/db?master_name=…&addr=host:port…" (user and password are the
// sentinels', those of Redis are the parameters username and password) and "redis+cluster://host:port?addr=host:port…"; "rediss…" for TLS.
// Parameters: ttl, prefix, replicas, wait_timeout, and those of go-redis' ParseURL, ParseFailoverURL and ParseClusterURL.
//
// # Server requirements
//
// Redis 6.2 or newer; the right to the keys lockport:* and lockport.side:* (or another prefix) and to the commands of the scripts,
// of which docs/backends/redis.md has an ACL; a maxmemory-policy that evicts nothing.
//
// # Example
//
//	client, err := redis.New(goredis.NewClient(&goredis.Options{Addr: "localhost:6379"}), redis.Options{})
//	…
//	lock, err := client.Acquire(ctx, "nightly-report")
package redis
