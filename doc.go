// Package lockport acquires named locks that machines share, on the server that a team already has: Redis, a folder, and
// others, each with its promises stated and tested.
//
// # What a lock guarantees, and what it does not
//
// Between the return of Acquire and Release, or the closing of Lost, nobody else holds the name, under the assumptions that the backend's
// page states. A lock is a lease: if nothing is heard from its server, it ends by itself, locally before the server can grant it to
// somebody else, and Err says so by comparing the clock at every call.
//
// No lock of any kind can stop a process that was paused after it looked, and writes when it wakes. Where that matters, give the
// fencing token, see Lock.Token, to what you protect and let it refuse a smaller one than it has seen. And a server that loses a
// lock in a fail-over, as a Redis with an asynchronous replica may, breaks the promise of exclusion: the backend's page says so first,
// and Require makes construction fail where a service needs more than a backend has.
//
// # Use
//
// Make a Client with the constructor of a backend, such as redis.New, or by URL with Open; then Acquire, TryAcquire or Do.
// Renewal is on by default: TTL bounds how long a lock stays taken after its holder fell silent, never the work. Waiting callers of a
// process are served first in, first out, the server sees one of them, and holds pass from one goroutine to the next without a
// request, within bounds that keep other processes from starving.
//
// # Beside the plain lock
//
// Shared holds a name as one of many readers, Permits as one of at most n holders; AcquireAll holds several names or none; Reenter takes a part of a hold
// that the context carries; Lock.Detach and Client.Attach pass a hold to another process. Not every backend can do all: see Capabilities and Require.
//
// # Writing a backend
//
// See the package driver, which a backend implements, and the package conformance, which proves it.
package lockport
