// Package zookeeper keeps locks on Apache ZooKeeper 3.5 or newer, on one server or an ensemble, laid out as Curator's InterProcessMutex
// does, so that Java programs and lockport contend for the same locks.
//
// # Guarantees
//
//   - Exclusion among all clients that use this layout, also across the loss of a server and of the leader, as long as a quorum keeps its data.
//   - A hold ends when it was released, or when its session has: at most the TTL after the process fell silent, and a tick. A holder that no
//     quorum hears of knows that before, also where the server that it is connected to answers and has itself been cut off.
//   - Fencing tokens rise for each name: a token is the transaction that created the holder's node.
//   - Waiting clients are served first in, first out, foreign ones included, and each is woken by the node ahead of its own.
//   - A holder whose node is deleted is told within 500 ms.
//   - A claim and the list that says whether it was the first go together; a release is one request. One request renews all locks.
//   - Every request goes through the exported methods of a *zk.Conn, which may be yours.
//
// # Non-guarantees
//
//   - One session carries all locks of a Backend: when it expires, all of them are lost. There is one TTL for them.
//   - An ensemble that was restarted without its data grants anew what is held, and begins with its tokens from the start.
//   - Where minSessionTimeout is configured below two ticks the option TickTime is needed; see there.
//   - A *zk.Conn does not tell its session timeout: give Options.Log, or say it as the TTL.
//   - There is no SASL, nor TLS by URL; the option Dial gives TLS.
//
// # URL
//
// "zookeeper://user:password@host:port,host:port/chroot?ttl=15s": user and password are those of digest authentication, the path is the
// node below which the locks are. Parameters: ttl, addr (another server), tick_time.
//
// # Server requirements
//
// ZooKeeper 3.5 or newer, for containers, which the server removes when they are empty. The
// right to create, read and delete below the chroot. A maxSessionTimeout of at least half the TTL, and a minSessionTimeout of at most the
// TTL: 2 and 20 ticks by default.
//
// # Example
//
//	client, err := zookeeper.Connect([]string{"zk-1:2181", "zk-2:2181"}, zookeeper.Options{Chroot: "/locks"})
//	…
//	lock, err := client.Acquire(ctx, "nightly-report")
package zookeeper
