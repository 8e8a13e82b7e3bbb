// Package etcd provides locks on etcd 3.4 or newer, through clientv3.
//
// # Guarantees
//
//   - Exclusion among all clients of one cluster that lock as client/v3/concurrency and "etcdctl lock" do, with the exception below.
//     An acknowledged grant survives the loss of members while a majority lives.
//   - A hold ends at its release, or when its lease expires. The lease is confirmed at least every third of the TTL.
//     A holder cut off from etcd knows that its hold has ended before the lease expires.
//   - Fencing tokens are revisions of the store: they rise for each name, also across a change of leader.
//   - All clients, foreign ones included, are served first in, first out. A release wakes only the next waiter.
//   - Readers share a name, never with a writer, foreign or not. Of n permits at most n are held.
//   - A holder whose key is deleted, or whose lease is revoked, is told within 250 ms while etcd is reachable.
//   - An uncontended claim is one transaction, a release one request; goroutines share transactions. All locks with one TTL share a lease,
//     which one keep-alive renews. All watches share a stream.
//
// # Non-guarantees
//
//   - A leader paused for longer than the TTL can, once it resumes, revoke leases that the new leader has renewed. Healthy holders then
//     lose their locks, and learn of it a moment after the next holder may have been granted them. Only the token protects then.
//   - Tokens fall when the cluster is restored from a backup or created anew: the revision does.
//   - A TTL is in whole seconds, at least 1 s, and at least 1.5 times etcd's election timeout.
//
// # URL
//
// "etcd://user:password@host:2379,host2:2379", or "etcds" with TLS. Parameters: ttl, prefix, addr (more endpoints); with TLS also ca,
// cert, key, servername.
//
// # Server requirements
//
// etcd 3.4 or newer, on three members or more. With authentication, a user whose role has readwrite on the prefix.
// --auto-compaction-retention, since etcd keeps the history of every key until compaction.
package etcd
