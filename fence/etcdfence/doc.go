// Package etcdfence guards data in etcd 3.4 or newer, through clientv3: a transaction whose fencing token is not that of the latest holder is
// refused by etcd.
//
// # Recipe
//
//   - Choose a key for the fence, one for each lock whose holders write. It is attached to no lease; nobody else writes to it.
//   - A new holder registers its token before it reads what it is going to change. From then on every older holder's transactions are refused, also
//     those that are on their way.
//   - It writes through the [Guard] that registering gave it: [Guard.Txn] is used as that of clientv3, [Guard.Commit] carries out operations, and
//     [Guard.Cmps] are the conditions for a transaction of the caller's own.
//   - An error that matches fence.ErrStale means that nothing was written: stop, and let the newer holder work.
//
// The token may come from any backend that has tokens. If the lock is on the same etcd, [Fence.RegisterLock] has each transaction compare the
// lock's own key too, so that a holder is refused as soon as its lock has ended, not only when the next holder has registered. The lock's key alone
// would not do: it outlives a hand-off inside the process, so that the hold before could still write.
//
// # Guarantees
//
//   - Once a token is registered, no guarded transaction with a smaller one takes effect, whenever it arrives. Comparing and writing are one
//     transaction.
//   - A token may be registered, and used, any number of times: goroutines of one holder may share a Guard.
//   - After an error that does not match fence.ErrStale the outcome of a transaction is unknown, and it may yet arrive. It does nothing once a newer
//     token is registered. clientv3 repeats by itself only what was certainly not carried out.
//   - Every call returns when its context ends.
//
// # Limits
//
//   - The fence is as durable as the data beside it: a cluster that is restored from a backup has forgotten what was registered since, and the
//     tokens of its own locks repeat. End all holders before the restore, since one from before it can have a greater token than the next.
//   - A fence that is deleted refuses all writes until somebody registers again; but an old holder that registers first would be believed.
//   - Reads WithSerializable may be old: a holder reads without.
//   - What other clients write without a Guard is not seen, and not refused.
//   - A guarded transaction with conditions of its own is one nested in another: it counts one operation more for etcd's limit (--max-txn-ops, 128),
//     and versions of etcd that are not up to date, 3.4.23 among them, do not check what is nested against the user's roles (GHSA-rfx7-8w68-q57q).
package etcdfence
