package servers

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// Ports are below the systems' ephemeral ranges (Linux from 32768, macOS from 49152). So no outgoing connection takes the port of a server that is
// down for a restart. A server's second port, for other nodes, is peerOffset higher.
const minPort, maxPort, peerOffset = 12000, 21000, 10000

// claims holds the ports that this process chose, until it ends.
var claims sync.Map

// freePort returns a free port of 127.0.0.1 whose second port is free too. It returns no port that another live lockport process has chosen: each
// process holds the UDP ports of the same numbers.
func freePort() (int, error) {
	for range 1000 {
		port := minPort + rand.IntN(maxPort-minPort)
		if claim(port) && claim(port+peerOffset) {
			return port, nil
		}
	}
	return 0, errors.New("servers: no free port on 127.0.0.1")
}

func claim(port int) bool {
	held, err := net.ListenPacket("udp", hostPort(port))
	if err != nil {
		return false
	}
	listener, err := net.Listen("tcp", hostPort(port))
	if err != nil {
		_ = held.Close()
		return false
	}
	claims.Store(port, held)
	_ = listener.Close()
	return true
}

func hostPort(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
