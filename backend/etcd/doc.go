// Package etcd keeps locks on etcd 3.4 or newer, through clientv3.
//
// # Guarantees
//
//   - Exclusion among all clients of one cluster that take a lock as client/v3/concurrency and "etcdctl lock" do, with the exception below. A
//     grant that was acknowledged survives the loss of members as long as a majority lives.
//   - A hold ends when it was released, or when its lease, which was confirmed at least every third of the TTL, has ended. A holder that etcd
//     does not hear from knows that before.
//   - Fencing tokens are revisions of the store: they rise for each name, also across the loss of a leader.
//   - Clients, foreign ones included, are served first in, first out. Each that waits is woken by the release of the one before it alone.
//   - Readers hold a name together, and never beside a writer, who may be a foreign client. Of n permits never more than n are held.
//   - A holder whose key is deleted, or whose lease is revoked, is told within 250 ms while etcd can be reached.
//   - An uncontended claim is one transaction, a release one request; those of many goroutines share transactions. All locks of one TTL
//     share a lease, so that one keep-alive renews them all, and all watches share a stream.
//
// # Non-guarantees
//
//   - A leader that is stopped for longer than the TTL and then goes on can have leases revoked that another leader has renewed: healthy holders
//     lose their locks, and are told a moment after the next may have been granted them. Only the token protects then.
//   - Tokens fall when the cluster is restored from a backup, or begins anew: the revision does.
//   - A TTL is at least 1 s, and at least one and a half times etcd's election timeout, in whole seconds.
//
// # URL
//
// "etcd://user:password@host:2379,host2:2379", or "etcds" with TLS. Parameters: ttl, prefix, addr (more endpoints), and with TLS ca, cert,
// key, servername.
//
// # Server requirements
//
// etcd 3.4 or newer, three members or more; a user with a role that has readwrite on the prefix, if authentication is on;
// --auto-compaction-retention set, since etcd keeps the history of every key until it is compacted.
//
// # Example
//
//	server, err := clientv3.New(clientv3.Config{Endpoints: []string{"localhost:2379"}})
//	…
//	client, err := etcd.New(server, etcd.Options{})
//	…
//	lock, err := client.Acquire(ctx, "nightly-report")
package etcd
