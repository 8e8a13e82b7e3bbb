package servers

import (
	"net"
	"testing"
)

// Nobody returns an address of 127.0.0.1 that refuses every connection until t ends. Another process could take a closed listener's port. This port
// stays taken, as the local end of a connection.
func Nobody(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", listener.Addr().String()) // succeeds without Accept
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		_ = listener.Close()
	})
	return conn.LocalAddr().String()
}
