package servers

import (
	"net"
	"time"
)

// greetingTime bounds how long a ZooKeeper may take to answer what opens a session, or attaches one.
const greetingTime = 3 * time.Second

// DialZooKeeper is for zk.WithDialer, and for each client of go-zookeeper's whose server is restarted: a ZooKeeper never answers a session that
// arrives early in its start, and go-zookeeper alone would wait for it for nearly seven session timeouts.
func DialZooKeeper(network, addr string, timeout time.Duration) (net.Conn, error) {
	conn, err := net.DialTimeout(network, addr, timeout)
	if err != nil {
		return nil, err
	}
	return &greetedConn{Conn: conn, until: time.Now().Add(greetingTime)}, nil
}

// greetedConn is a connection whose server must have begun to answer by some time.
type greetedConn struct {
	net.Conn
	until time.Time
	heard bool // only for the goroutine that reads
}

func (c *greetedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.heard = c.heard || n > 0
	return n, err
}

// SetReadDeadline is called by the goroutine that reads, as go-zookeeper does.
func (c *greetedConn) SetReadDeadline(t time.Time) error {
	if !c.heard && (t.IsZero() || t.After(c.until)) {
		t = c.until
	}
	return c.Conn.SetReadDeadline(t)
}
