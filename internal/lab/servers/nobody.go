package servers

import (
	"net"
	"testing"
)

// Nobody returns an address of 127.0.0.1, "127.0.0.1:port", where every connection is refused until the end of t. The port of a listener
// that was closed would be anybody's; this one is kept, as the near end of a connection.
func Nobody(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", listener.Addr().String()) // need not be accepted
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		_ = listener.Close()
	})
	return conn.LocalAddr().String()
}
