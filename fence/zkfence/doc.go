// Package zkfence guards data in Apache ZooKeeper 3.5 or newer, through go-zookeeper: a multi whose fencing token is not that of the latest holder
// is refused by the server.
//
// # Recipe
//
//   - Choose a node for the fence, one for each lock whose holders write. It is persistent and is created if it is missing; nobody else writes to it.
//   - A new holder registers its token before it reads what it is going to change, over the same connection. From then on every older holder's
//     writes are refused, also those that are on their way.
//   - It writes through the [Guard] that registering gave it: [Guard.Multi] carries out operations, [Guard.Set] sets a node's data, and
//     [Guard.Checks] are the conditions for a multi of the caller's own.
//   - An error that matches fence.ErrStale means that nothing was written: stop, and let the newer holder work.
//
// The token may come from any backend that has tokens. If the lock is on the same ZooKeeper, [Fence.RegisterLock] has each multi check the lock's
// own node too, so that a holder is refused as soon as its session has expired, not only when the next holder has registered. The lock's node alone
// would not do: it outlives a hand-off inside the process, so that the hold before could still write.
//
// # Guarantees
//
//   - Once a token is registered, no guarded multi with a smaller one takes effect, whenever it arrives. Checking and writing are one transaction.
//   - A token may be registered, and used, any number of times: goroutines of one holder may share a Guard.
//   - After an error that does not match fence.ErrStale, nor is the server's answer, the outcome of a write is unknown, and it may yet arrive:
//     go-zookeeper keeps what it could not send until it is connected again. It does nothing once a newer token is registered.
//   - Every call returns soon after its context ends.
//
// # Limits
//
//   - The fence is as durable as the data beside it: an ensemble that is restored from a backup has forgotten what was registered since, and the
//     tokens of its own locks repeat. End all holders before the restore, since one from before it can have a greater token than the next.
//   - A fence that is deleted refuses all writes until somebody registers again; but an old holder that registers first would be believed.
//   - Reads over another connection may be old: register the token over that one too. Sync is no matter of the quorum, and so not enough while a leader that
//     was deposed does not know it yet.
//   - What other clients write without a Guard is not seen, and not refused.
//   - A server accepts connections early in its start that it never answers; go-zookeeper waits for such a one for nearly seven session timeouts before
//     it tries again. Where a restart of the server is not to cost that, give zk.WithDialer connections whose first read has a deadline. The
//     lock's own backend needs no help: it bounds that wait itself.
//
// # Layout
//
// The fence's node has one child, persistent and named by the latest token in 20 decimal digits. What a write checks is that the child of its token
// is there, not a node's version: versions begin anew when a node is deleted and created, so that an old one could fit again; a token never does.
// The data of the fence's node is the token once more, for people; its version keeps two that register at the same time apart.
package zkfence
