// Package zkfence guards data in Apache ZooKeeper 3.5 or newer, through go-zookeeper: the server refuses a multi whose fencing token is not the
// latest holder's. Package fence has the rules, guarantees and limits of all fences.
//
// # Recipe
//
//   - Choose a node for the fence, one for each lock whose holders write. It is persistent, is created if missing, and nothing else writes to it.
//   - A new holder registers before it reads, over the same connection, and writes through its [Guard]. [Guard.Multi] executes operations, and
//     [Guard.Set] sets a node's data.
//
// If the lock is on the same ZooKeeper, use [Fence.RegisterLock]. Each multi then also checks the lock's own node, so the server refuses a holder as
// soon as its session has expired, before the next holder registers. The lock's node alone is not enough: it survives a hand-off inside the process.
//
// # Limits
//
//   - An ensemble restored from a backup repeats the tokens of its own locks. End all holders before the restore.
//   - Reads over another connection may be stale: register the token over that connection too. Sync is not enough: it does not ask the quorum, so
//     a deposed leader that does not know it yet answers too.
//   - go-zookeeper keeps a request that it could not send. It sends it once it is connected again, even after the call's context has ended.
//   - A starting server accepts connections that it never answers. go-zookeeper waits nearly seven session timeouts for such a connection before it
//     tries again. To avoid that after server restarts, use zk.WithDialer with connections whose first read has a deadline.
//
// # Layout
//
// The fence's node has one child, persistent and named by the latest token in 20 decimal digits. A write checks that its token's child exists.
// It does not check a node's version: versions restart when a node is deleted and created, so an old version could match again; a token never
// does. The fence node's data repeats the token for people. Its version separates two concurrent registrations.
package zkfence
