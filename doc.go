// Package lockport acquires named locks that processes on several machines share, on a server that you already run.
//
// # Backends
//
// Each backend is a package. Its New takes the client you already have; [Open] takes a URL:
//
//   - [github.com/lockport/lockport/backend/redis]: one Redis, Sentinel or Cluster, through go-redis
//   - [github.com/lockport/lockport/backend/redlock]: a majority of independent Redis servers
//   - [github.com/lockport/lockport/backend/etcd]: leases, in the layout of etcdctl lock
//   - [github.com/lockport/lockport/backend/zookeeper]: ephemeral nodes, in the layout of Curator
//   - [github.com/lockport/lockport/backend/postgres]: advisory locks, through pgx
//   - [github.com/lockport/lockport/backend/mysql]: GET_LOCK of MySQL and MariaDB, through database/sql
//   - [github.com/lockport/lockport/backend/table]: rows of a table, through database/sql; also behind PgBouncer in transaction mode
//   - [github.com/lockport/lockport/backend/nats]: a JetStream key-value bucket; a separate module
//   - [github.com/lockport/lockport/backend/file]: lock files of one machine
//   - [github.com/lockport/lockport/backend/memory]: one process; the fake for your tests
//
// # What a lock guarantees
//
// From the return of Acquire until Release, or until the lock is lost, nobody else holds the name, under the assumptions on the backend's page.
// A lock is a lease. If its holder hears nothing from the server, the hold ends locally before the server can grant the name to another process.
// [Lock.Err] and [Lock.Valid] compare clocks at every call; [Lock.Lost] and [Lock.Context] notify a waiting goroutine.
//
// # What it does not guarantee
//
// No lock can stop a process that was paused after it checked the lock and writes when it wakes. Pass the fencing token, [Lock.Token], to the
// storage you protect, and let the storage refuse a token smaller than one it has seen. The package [github.com/lockport/lockport/fence] and its
// subpackages do that for SQL, Redis, etcd and ZooKeeper.
//
// A server that loses a lock in a fail-over, as Redis with an asynchronous replica may, breaks exclusion. [Require] makes construction fail if a
// backend promises less than you need.
//
// # Use
//
// Make one [Client] for your program. Then call [Do], which acquires, runs a function and releases. Acquire waits; TryAcquire does not.
//
// Held locks are renewed until they are released. [TTL] bounds how long a lock stays taken if its holder goes silent; it does not bound the work.
// Goroutines of one process that wait for the same name get it first in, first out, and hand it off without a request to the server. After at most
// 100 ms of hand-offs they leave the name free for other processes. Where waiters poll, consider [WithoutHandOff].
//
// A lock is not re-entrant: a second Acquire in the same process waits. [Reenter] opts in.
//
// [Shared] acquires a name as one of many readers, [Permits] as one of at most n holders, [AcquireAll] several names or none. [Lock.Detach] and
// [Client.Attach] pass a lock to another process. Not every backend supports all of these: see Capabilities. The package
// [github.com/lockport/lockport/leader] runs a function in one process at a time.
//
// # Writing a backend
//
// Implement the package [github.com/lockport/lockport/driver], and test it with [github.com/lockport/lockport/conformance].
package lockport
