// Package redisfence guards data in Redis 6.2 or newer, through go-redis: the server refuses a write whose fencing token is not that of the latest
// holder. Package fence has the rules, guarantees and limits of all fences.
//
// # Recipe
//
//   - Choose a key for the fence, one for each lock whose holders write. It has no expiry; nothing else writes to it.
//   - A new holder registers before it reads, and writes through its [Guard]: [Guard.Set] and [Guard.Do] for one command, and [Guard.Run] for a Lua
//     script of its own, which reads and writes in one step.
//
// If the lock is on the same Redis, [Fence.RegisterLock] has each write check the lock's own key too, so that a holder is refused as soon as its
// lock has expired, not only when the next holder has registered.
//
// # Limits
//
//   - Reads from a replica may be old (ReadOnly, RouteByLatency and the like of a Cluster's client): a holder reads where it writes.
//   - No write is sent twice by itself. A script's replies are those of Lua, also with Do: a whole number beyond 2^53 is rounded in the reply of INCRBY,
//     not in the data.
//   - A policy that evicts keys without an expiry may evict the fence, which is then as one that was deleted.
//   - In a Redis Cluster the keys of the fence and of the data must have one slot, and that of the lock too with RegisterLock: give them one hash tag,
//     "fence:{account-7}" and "balance:{account-7}". The lock on NAME is at "lockport:NAME" and has no hash tag: use {lockport:NAME} then.
//   - A Ring is refused, since it moves keys to another server when one is away.
package redisfence
