// Package nats keeps locks in a key-value bucket of NATS JetStream 2.11 or newer, through nats.go. It is a module of its own.
//
// # Guarantees
//
//   - Exclusion among all clients of one bucket, as long as its data survive and the servers' clocks agree. Each write names the revision it replaces.
//   - A hold ends when it was released, or when its TTL has passed since it was last renewed, by the server's expiry of the key. A holder that the
//     server does not hear from knows that before.
//   - Fencing tokens are revisions of the bucket: they rise for each name, and also for a bucket that CreateBucket makes anew.
//   - Waiting clients are woken by a watch of the key, which also tells of removal and expiry, and look again every second in case it breaks.
//   - A holder whose key is deleted or overwritten is told at its next renewal: within a third of the TTL and 100 ms.
//   - A request that arrives late grants nothing to anyone who could believe in it: see docs/backends/nats.md.
//
// # Non-guarantees
//
//   - At its default settings NATS writes to disk every two minutes: servers that lose power together can forget locks. Only the token protects then.
//   - A server whose clock is ahead ends locks early when it leads the bucket.
//   - Waiting clients of different processes are served in no order. There are no readers and no permits.
//
// # URL
//
// "nats://user:password@host:4222,host2:4222". Parameters: ttl, bucket, addr (more servers), creds (a file), and tls=true with ca, cert, key, servername.
//
// # Example
//
//	js, err := jetstream.New(conn)
//	…
//	err = nats.CreateBucket(ctx, js, nats.Options{}, 3) // once
//	client, err := nats.New(js, nats.Options{})
//	lock, err := client.Acquire(ctx, "nightly-report")
package nats
