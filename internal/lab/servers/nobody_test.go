package servers

import (
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNobody(t *testing.T) {
	addr := Nobody(t)
	_, err := net.Dial("tcp", addr)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	_, err = net.Listen("tcp", addr)
	require.ErrorIs(t, err, syscall.EADDRINUSE, "another process could take the port")
}
