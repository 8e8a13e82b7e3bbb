// Package etcdfence guards data in etcd 3.4 or newer, through clientv3: etcd refuses transactions whose fencing token is not the latest holder's.
// Package fence has the rules, guarantees and limits of all fences.
//
// # Recipe
//
//   - Choose a key for the fence, one for each lock whose holders write. The key has no lease, and nothing else writes to it.
//   - A new holder registers before it reads, and writes through its [Guard]. [Guard.Txn] works like clientv3's, and [Guard.Commit]
//     executes operations.
//
// If the lock is on the same etcd, use [Fence.RegisterLock]. Each transaction then also compares the lock's own key, so etcd refuses a holder as
// soon as its lock has ended, before the next holder registers. The lock's key alone is not enough: it survives a hand-off inside the process.
//
// # Limits
//
//   - A cluster restored from a backup repeats the tokens of its own locks. End all holders before the restore.
//   - Reads WithSerializable may be stale, so holders must not use it.
//   - clientv3 repeats a transaction answered with gRPC's code Canceled or DeadlineExceeded. The first copy may have taken effect, and can be why a
//     condition of the second one fails.
//   - A guarded transaction with conditions of its own is nested in another one. It counts one more operation against etcd's limit (--max-txn-ops,
//     128). Outdated versions of etcd, such as 3.4.23, do not check nested operations against the user's roles (GHSA-rfx7-8w68-q57q).
package etcdfence
