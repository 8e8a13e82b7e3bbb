package servers

import (
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The server accepts and says nothing; then it says one byte, after which it may take its time.
func TestDialZooKeeperWaitsForAGreetingOnly(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	dial := func() (client, server net.Conn) {
		client, err := DialZooKeeper("tcp", l.Addr().String(), time.Minute)
		require.NoError(t, err)
		server, err = l.Accept()
		require.NoError(t, err)
		t.Cleanup(func() { _, _ = client.Close(), server.Close() })
		return client, server
	}
	read := func(c net.Conn, deadline time.Time) error {
		require.NoError(t, c.SetReadDeadline(deadline))
		_, err := io.ReadFull(c, make([]byte, 1))
		return err
	}
	silent, _ := dial()
	start := time.Now()
	require.ErrorIs(t, read(silent, start.Add(time.Hour)), os.ErrDeadlineExceeded, "go-zookeeper's own deadline")
	require.GreaterOrEqual(t, time.Since(start), greetingTime/2)

	client, server := dial()
	_, err = server.Write([]byte("a"))
	require.NoError(t, err)
	require.NoError(t, read(client, time.Time{}))
	late := make(chan error, 1)
	go func() { late <- read(client, time.Time{}) }()
	select {
	case err := <-late:
		require.NoError(t, err, "a server that has answered may be silent")
	case <-time.After(greetingTime + time.Second):
	}
	_, err = server.Write([]byte("b"))
	require.NoError(t, err)
	require.NoError(t, <-late)
}
