// Package nats keeps locks in a key-value bucket of NATS JetStream 2.11 or newer, through nats.go. It is a module of its own.
//
// Guarantees: exclusion among all clients of one bucket, as long as its data survive and the servers' clocks agree. A hold ends when it was released,
// or when its TTL has passed since it was last renewed; a holder that the server does not hear from knows before. Fencing tokens are revisions of the
// bucket: they rise for each name. Waiting clients are woken by a watch of the key. A holder whose key is deleted is told at its next renewal.
//
// Non-guarantees: servers that lose power together can forget locks, unless NATS is set to write to disk at once; only the token protects then. A server
// whose clock is ahead ends locks early when it leads the bucket. Waiting processes are served in no order. There are no readers and no permits.
//
// URL: "nats://user:password@host:4222,host2:4222". Parameters: ttl, bucket, addr (more servers), creds (a file), and tls=true with ca, cert, key, servername.
package nats
