package servers

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// Ports are taken from below the systems' ephemeral ranges (Linux from 32768, macOS from 49152), so that no outgoing
// connection takes the port of a server that is down for a restart.
const minPort, maxPort = 15000, 32000

// handedOut are the ports that this process was given: two servers that start at once get different ones.
var handedOut sync.Map

// freePort returns a port of 127.0.0.1 that is free at the moment, as is the port offset (up to 15,000) above it, and that it has not returned before.
// Another process may take it before the server does: the start is then tried again with another port.
func freePort(offset int) (int, error) {
	for range 1000 {
		port := minPort + rand.IntN(maxPort-minPort-offset)
		if !portFree(port) || offset != 0 && !portFree(port+offset) {
			continue
		}
		_, given := handedOut.LoadOrStore(port, true)
		if _, above := handedOut.LoadOrStore(port+offset, true); !given && (offset == 0 || !above) {
			return port, nil
		}
	}
	return 0, errors.New("servers: no free port on 127.0.0.1")
}

func portFree(port int) bool {
	listener, err := net.Listen("tcp", hostPort(port))
	if err != nil {
		return false
	}
	_ = listener.Close()
	return true
}

func hostPort(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
