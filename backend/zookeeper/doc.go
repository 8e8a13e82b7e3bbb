// Package zookeeper provides locks on Apache ZooKeeper 3.5 or newer, on one server or an ensemble. It uses the layout of Curator's
// InterProcessMutex, so that Java programs and lockport contend for the same locks.
//
// # Guarantees
//
//   - Exclusion among all clients of this layout, also across the loss of a server or the leader, while a quorum keeps its data.
//   - A hold ends at its release or with its session: at most the TTL and a tick after the process goes silent. A holder that no quorum
//     hears knows that its hold has ended before, even if its own server answers but is cut off from the others.
//   - Fencing tokens rise for each name: a token is the transaction that created the holder's node.
//   - All clients, foreign ones included, are served first in, first out. Each waiter is woken by the node ahead of its own.
//   - A holder whose node is deleted is told within 500 ms.
//   - A claim creates its node and lists the lock in one round trip; a release is one request. One request renews all locks.
//   - Every request goes through the exported methods of a *zk.Conn, which may be yours.
//
// # Non-guarantees
//
//   - One session carries all locks of a Backend: when it expires, all of them are lost. They share one TTL.
//   - An ensemble restarted without its data grants held locks again, and its tokens start over.
//   - If minSessionTimeout is below two ticks, set the option TickTime; see its comment.
//   - A *zk.Conn does not reveal its session timeout: set Options.Log, or set the TTL to it.
//   - There is no SASL, and no TLS by URL; the option Dial adds TLS.
//
// # URL
//
// "zookeeper://user:password@host:port,host:port/chroot?ttl=15s": user and password are for digest authentication; the path is the
// node that contains the locks. Parameters: ttl, addr (another server), read_write_lock, tick_time.
//
// # Server requirements
//
// ZooKeeper 3.5 or newer, for containers, which the server removes when they are empty. The right to create, read and delete below the
// chroot. A minSessionTimeout of at most the TTL (default: 2 ticks), and a maxSessionTimeout of at least half the TTL (default: 20 ticks).
package zookeeper
