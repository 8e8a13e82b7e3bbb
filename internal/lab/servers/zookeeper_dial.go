package servers

import (
	"net"
	"time"
)

// greetingTime bounds how long a ZooKeeper may take to answer a client that opens or resumes a session.
const greetingTime = 3 * time.Second

// DialZooKeeper is for zk.WithDialer, in every go-zookeeper client whose server may restart. A ZooKeeper never answers a session request that
// arrives too early in its startup. go-zookeeper would wait for the answer for nearly seven session timeouts.
func DialZooKeeper(network, addr string, timeout time.Duration) (net.Conn, error) {
	conn, err := net.DialTimeout(network, addr, timeout)
	if err != nil {
		return nil, err
	}
	return &greetedConn{Conn: conn, until: time.Now().Add(greetingTime)}, nil
}

// greetedConn is a connection that times out if the server has not begun to answer by until.
type greetedConn struct {
	net.Conn
	until time.Time
	heard bool // used by the reading goroutine alone
}

func (c *greetedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.heard = c.heard || n > 0
	return n, err
}

// SetReadDeadline must be called by the reading goroutine, as go-zookeeper does.
func (c *greetedConn) SetReadDeadline(t time.Time) error {
	if !c.heard && (t.IsZero() || t.After(c.until)) {
		t = c.until
	}
	return c.Conn.SetReadDeadline(t)
}
