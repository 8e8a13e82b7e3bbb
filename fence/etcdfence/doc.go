// Package etcdfence guards data in etcd 3.4 or newer, through clientv3: etcd refuses a transaction whose fencing token is not that of the latest holder.
// Package fence has the rules, guarantees and limits of all fences.
//
// # Recipe
//
//   - Choose a key for the fence, one for each lock whose holders write. It is attached to no lease; nothing else writes to it.
//   - A new holder registers before it reads, and writes through its [Guard]: [Guard.Txn] is used as that of clientv3, [Guard.Commit] carries out operations, and
//     [Guard.Cmps] are the conditions for a transaction of your own.
//
// If the lock is on the same etcd, [Fence.RegisterLock] has each transaction compare the lock's own key too, so that a holder is refused as soon as its lock
// has ended, not only when the next holder has registered. The lock's key alone would not do: it outlives a hand-off inside the process.
//
// # Limits
//
//   - A cluster that is restored from a backup repeats the tokens of its own locks. End all holders before the restore.
//   - Reads WithSerializable may be old: a holder reads without. clientv3 repeats by itself only requests that were certainly not carried out.
//   - A guarded transaction with conditions of its own is one nested in another: it counts one operation more for etcd's limit (--max-txn-ops, 128),
//     and versions of etcd that are not up to date, 3.4.23 among them, do not check what is nested against the user's roles (GHSA-rfx7-8w68-q57q).
package etcdfence
