// Package redlock implements locks on an odd number of independent Redis servers, at least three, through go-redis. A claim holds the lock
// if a majority of these nodes has granted it. The algorithm is https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/.
//
// # Guarantees
//
//   - Exclusion among all clients of the same nodes, unless a node that voted for a holder loses its data or has its clock set forward
//     within one TTL. One such node is enough if the holder has a bare majority. Any minority may be down, hung or unreachable.
//   - A hold ends on release, or when its TTL, less 1 % and 2 ms for clock drift, has passed since a majority last set or confirmed it.
//     A holder that reaches no majority knows this before that time is over.
//   - All nodes are asked at once, and the client waits only until the outcome is certain. One hung or dead node of five costs nothing.
//     Without a majority, an acquisition fails within the node timeout.
//   - Waiting clients are served in the order in which they began to wait, by their own clocks, if they answer within 250 ms of their
//     turn. Messages from the nodes wake them; they also poll every 5 s in case those are lost. Split votes go to the claim with the
//     smallest owner id among those with votes.
//   - A holder learns at its next renewal that it lost the majority: within a third of the TTL plus 100 ms. While a majority still has the
//     lock, a renewal retakes it on nodes that lost it.
//
// # Non-guarantees
//
//   - No fencing tokens: the counters of independent nodes cannot provide one that always rises. Work that must not run twice needs another
//     backend.
//   - A node that returns without its data within one TTL of its failure can vote twice. Keep a crashed node away for longer than the
//     longest TTL, or make every node write each change to disk.
//   - A claim that failed while nodes were unreachable may keep its key on a minority of them for its TTL.
//   - Foreign clients do not queue and may overtake. Waiters behind them poll every 100 ms.
//
// # URL
//
// "redlock://user:password@host1:port,host2:port,host3:port/db", with the same login for all nodes; "redlocks://…" for TLS. Parameters: ttl,
// prefix, addr, node_timeout, and those of go-redis' ParseURL for each node.
//
// # Server requirements
//
// Those of package redis on each node. No replica may take a node's place.
package redlock
