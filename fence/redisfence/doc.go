// Package redisfence guards data in Redis 6.2 or newer, through go-redis: a write whose fencing token is not that of the latest
// holder is refused by the server, in the same step that would have written.
//
// # Recipe
//
//   - Choose a key for the fence, one for each lock whose holders write. It has no expiry; nobody else writes to it.
//   - A new holder registers its token before it reads what it is going to change. From then on every older holder's writes are refused,
//     also those that are on their way.
//   - It writes through the [Guard] that registering gave it: [Guard.Set] and [Guard.Do] for one command, [Guard.Run] for a Lua
//     script of its own, [Guard.Tx] for ordinary commands in one transaction (WATCH, MULTI).
//   - An error that matches fence.ErrStale means that nothing was written: stop, and let the newer holder work.
//
// The token may come from any backend that has tokens. If the lock is on the same Redis, [Fence.RegisterLock] has each write check the lock's own
// key too, so that a holder is refused as soon as its lock has expired, not only when the next holder has registered.
//
// # Guarantees
//
//   - Once a token is registered, no guarded write with a smaller one takes effect, whenever it arrives. Comparing and writing are one step.
//   - A token may be registered, and used, any number of times: goroutines of one holder may share a Guard.
//   - Nothing is sent twice by itself. What was answered with an error reply of the script's own or refused as stale is certain; after any other error
//     the outcome of a write is unknown, and it may yet arrive. It does nothing once a newer token is registered.
//   - Every call returns soon after its context ends.
//
// # Limits
//
//   - The fence is as durable as the data beside it, and no more: a Redis that loses its last writes in a fail-over or a restart may lose a
//     registration together with what was written under it, so that the holder before is the latest again. A Guard whose token is gone from the
//     fence is refused, and does not open it again: register anew.
//   - Reads from a replica may be old (ReadOnly, RouteByLatency and the like of a Cluster's client): a holder reads where it writes.
//   - A script's replies are those of Lua, also with Do: a whole number beyond 2^53 is rounded in the reply of INCRBY, not in the data.
//   - What other clients write without a Guard is not seen, and not refused.
//   - A policy that evicts keys without an expiry may evict the fence. Nothing is written then until somebody registers again; but an old holder that
//     registers first would be believed.
//   - In a Redis Cluster the keys of the fence and of the data must have one slot, and that of the lock too with RegisterLock: give them one hash tag,
//     "fence:{account-7}" and "balance:{account-7}". The lock on NAME is at "lockport:NAME" and has no hash tag: use {lockport:NAME} then.
//   - A Ring is refused, since it moves keys to another server when one is away.
package redisfence
