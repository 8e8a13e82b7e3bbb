// Package redlock keeps locks on an odd number of Redis servers, at least three, that know nothing of each other: who has a majority of them
// has the lock. It is the algorithm of https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/, through go-redis.
//
// # Guarantees
//
//   - Exclusion among all clients of the same nodes as long as no more than a minority of them loses its data, or has its clock set, within one
//     TTL. Any minority may be down, hung or unreachable.
//   - A hold ends when it was released, or when its TTL, less 1 % and 2 ms for the drift of clocks, has passed since it was last set or
//     confirmed by a majority. A holder that hears from no majority knows that before.
//   - All nodes are asked at once, and an answer is awaited only until the outcome is certain: a node of five that is hung or dead costs
//     nothing. With too few nodes an acquisition fails at once.
//   - Waiting clients are served in the order of the time at which they began to wait, by their own clocks, as long as they answer within 250 ms
//     when it is their turn. They are woken by messages of the nodes, and look again every 5 s in case those are lost. Votes that are
//     split go to the claim with the smallest owner id among those that have votes.
//   - A holder that has lost the majority is told at its next renewal: within a third of the TTL and 100 ms. A renewal takes the lock again on
//     nodes that have lost it while the majority still has it.
//
// # Non-guarantees
//
//   - No fencing tokens: counters of independent nodes give none that rises. What must not be done twice needs another backend.
//   - A node that comes back without its data within one TTL of its end, or a clock that jumps, can let two clients have a majority. Keep
//     a node that has crashed away for longer than the longest TTL, or have every node write each change to its disk.
//   - A claim that failed while nodes could not be reached may keep its key on a minority of them for its TTL.
//   - Foreign clients do not queue: they may overtake, and are polled for every 100 ms.
//
// # URL
//
// "redlock://user:password@host1:port,host2:port,host3:port/db", the same login for all nodes; "redlocks://…" for TLS. Parameters: ttl, prefix,
// addr, node_timeout, and those of go-redis' ParseURL, for each node.
//
// # Server requirements
//
// Those of package redis, on each node; no replica that takes a node's place.
//
// # Example
//
//	client, err := redlock.New([]*goredis.Client{a, b, c}, redlock.Options{})
//	…
//	lock, err := client.Acquire(ctx, "nightly-report")
package redlock
