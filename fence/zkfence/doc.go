// Package zkfence guards data in Apache ZooKeeper 3.5 or newer, through go-zookeeper: the server refuses a multi whose fencing token is not that of the
// latest holder. Package fence has the rules, guarantees and limits of all fences.
//
// # Recipe
//
//   - Choose a node for the fence, one for each lock whose holders write. It is persistent and is created if it is missing; nothing else writes to it.
//   - A new holder registers before it reads, over the same connection, and writes through its [Guard]: [Guard.Multi] carries out operations, [Guard.Set] sets a node's data, and
//     [Guard.Checks] are the conditions for a multi of your own.
//
// If the lock is on the same ZooKeeper, [Fence.RegisterLock] has each multi check the lock's own node too, so that a holder is refused as soon as its session
// has expired, not only when the next holder has registered. The lock's node alone would not do: it outlives a hand-off inside the process.
//
// # Limits
//
//   - An ensemble that is restored from a backup repeats the tokens of its own locks. End all holders before the restore.
//   - Reads over another connection may be old: register the token over that one too. Sync does not ask the quorum, and so does not suffice while a leader
//     that was deposed does not know it yet.
//   - go-zookeeper keeps a request that it could not send, and sends it when it is connected again, also after the call's context has ended.
//   - A server accepts connections early in its start that it never answers; go-zookeeper waits for such a one for nearly seven session timeouts before
//     it tries again. Give zk.WithDialer connections whose first read has a deadline where a restart of the server is not to cost that.
//
// # Layout
//
// The fence's node has one child, persistent and named by the latest token in 20 decimal digits. A write checks that the child of its token
// is there, not a node's version: versions begin anew when a node is deleted and created, so that an old one could fit again; a token never does.
// The data of the fence's node is the token once more, for people; its version keeps two that register at the same time apart.
package zkfence
