// Package nats provides locks in a key-value bucket of NATS JetStream 2.11.10 or newer, through nats.go. It is a module of its own.
//
// Guarantees: exclusion among all clients of one bucket, while its data survives and the servers' clocks agree. A hold ends at its release, or
// when its TTL has passed since its last renewal. A holder cut off from the server knows that before. Fencing tokens are revisions of the
// bucket: they rise for each name. A watch of the key wakes waiters. A holder whose key is deleted is told at its next renewal.
//
// Non-guarantees: servers that lose power together can forget locks, unless NATS writes to disk at once; only the token protects then. If the
// clock of the bucket's leader is ahead, locks end early. Waiters are served in no order. There are no readers and no permits.
//
// URL: "nats://user:password@host:4222,host2:4222". Parameters: ttl, bucket, addr (more servers), creds (a file), and tls=true with ca, cert, key,
// servername.
package nats
