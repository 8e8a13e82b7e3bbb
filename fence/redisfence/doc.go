// Package redisfence guards data in Redis 6.2 or newer, through go-redis: the server refuses writes whose fencing token is not the latest
// holder's. Package fence has the rules, guarantees and limits of all fences.
//
// # Recipe
//
//   - Choose a key for the fence, one for each lock whose holders write. The key has no expiry, and nothing else writes to it.
//   - A new holder registers before it reads, and writes through its [Guard]. [Guard.Set] and [Guard.Do] run one command; [Guard.Run] runs your
//     own Lua script, which can read and write in one step.
//
// If the lock is on the same Redis, use [Fence.RegisterLock]. Each write then also checks the lock's own key, so the server refuses a holder as
// soon as its lock has expired, before the next holder registers.
//
// # Limits
//
//   - Reads from a replica (ReadOnly, RouteByLatency and the like of a Cluster client) may be stale. A holder must read where it writes.
//   - No write is retried automatically. Replies are those of a Lua script, also with Do: the reply to INCRBY rounds whole numbers beyond 2^53;
//     the data are exact.
//   - A policy that evicts keys without an expiry may evict the fence. That is the same as deleting it.
//   - In a Redis Cluster, the keys of the fence, of the data and, with RegisterLock, of the lock must share a slot. Give fence and data one hash
//     tag: "fence:{account-7}" and "balance:{account-7}". The lock on NAME has the key "lockport:NAME" without a hash tag: use {lockport:NAME} then.
//   - Rings are refused: a Ring moves keys to another server when one is down.
package redisfence
