package servers

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
)

// quorumLinks are the ways between the nodes of an ensemble or a cluster: every node has a SOCKS proxy of its own, through which it makes
// every connection to the others. Proxies in front of the nodes would be passed by: a node of ZooKeeper that hears from another
// connects back to the address which that one says it listens on. And they accept what a node refuses because it does not
// listen yet, which makes a follower choose its leader anew. Nor could they tell which node it is that connects.
type quorumLinks struct {
	ports   [ensembleSize][]int // that the nodes listen on for each other
	fronts  [ensembleSize]net.Listener
	running sync.WaitGroup

	mu     sync.Mutex // guards all below
	conns  map[*quorumConn]struct{}
	isCut  [ensembleSize]bool
	healed chan struct{} // closed when the cuts of now are no more
	closed bool
}

// quorumConn is one connection, or the wish for one.
type quorumConn struct {
	from, to int
	ends     []net.Conn // from's, and to's when it is dialled
	ended    bool
}

// newQuorumLinks makes the links of nodes that listen on these ports for each other.
func newQuorumLinks(ports [ensembleSize][]int) (*quorumLinks, error) {
	l := &quorumLinks{ports: ports, conns: make(map[*quorumConn]struct{}), healed: make(chan struct{})}
	for i := range l.fronts {
		front, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, errors.Join(err, l.close())
		}
		l.fronts[i] = front
		l.running.Go(func() { l.accept(i, front) })
	}
	return l, nil
}

// zooKeeperLinks are the links of an ensemble. Each node listens on two ports: for followers, and for elections.
func zooKeeperLinks() (*quorumLinks, error) {
	var ports [ensembleSize][]int
	for i := range ports {
		for range 2 {
			port, err := freePort(0)
			if err != nil {
				return nil, err
			}
			ports[i] = append(ports[i], port)
		}
	}
	return newQuorumLinks(ports)
}

// config returns the lines of zoo.cfg that name the nodes.
func (l *quorumLinks) config() []string {
	var lines []string
	for i, ports := range l.ports {
		lines = append(lines, fmt.Sprintf("server.%d=127.0.0.1:%d:%d", i+1, ports[0], ports[1]))
	}
	return lines
}

// jvm returns the flags that make a node speak through its proxy.
func (l *quorumLinks) jvm(node int) []string {
	return []string{
		"-DsocksProxyHost=127.0.0.1",
		fmt.Sprint("-DsocksProxyPort=", l.front(node).Port),
		"-DsocksNonProxyHosts=", // none, where Java by itself spares the machine's own addresses
	}
}

// front is where a node's proxy listens.
func (l *quorumLinks) front(node int) *net.TCPAddr { return l.fronts[node].Addr().(*net.TCPAddr) }

// taken reports, when no node runs, that another process has one of the ports.
func (l *quorumLinks) taken() bool {
	for _, ports := range l.ports {
		if slices.ContainsFunc(ports, func(port int) bool { return !portFree(port) }) {
			return true
		}
	}
	return false
}

func (l *quorumLinks) accept(from int, front net.Listener) {
	for {
		conn, err := front.Accept()
		if err != nil {
			return // closed
		}
		l.running.Go(func() { l.serve(from, conn) })
	}
}

// serve lives as long as the connection.
func (l *quorumLinks) serve(from int, conn net.Conn) {
	c := &quorumConn{from: from, to: -1}
	defer l.end(c)
	if !l.add(c, conn) {
		return
	}
	port, err := socksRequest(conn)
	if err != nil || !l.direct(c, port) || !l.await(c) {
		return
	}
	peer, err := net.DialTimeout("tcp", hostPort(port), wordTime)
	if err != nil {
		_ = socksReply(conn, err)
		return
	}
	if !l.add(c, peer) || socksReply(conn, nil) != nil {
		return
	}
	var back sync.WaitGroup
	defer back.Wait()
	back.Go(func() { l.pump(c, conn, peer) })
	l.pump(c, peer, conn)
}

// pump forwards what src sends to dst, unless the nodes are cut, until one side ends; then so does the whole connection, as
// it does when a process is killed.
func (l *quorumLinks) pump(c *quorumConn, dst, src net.Conn) {
	defer l.end(c)
	buf := make([]byte, 32<<10)
	for {
		n, err := src.Read(buf)
		if !l.await(c) { // an end is no more heard than a byte
			return
		}
		if n > 0 {
			if _, err := dst.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// add makes conn an end of c, or closes it and returns false if c has ended.
func (l *quorumLinks) add(c *quorumConn, conn net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.ends = append(c.ends, conn)
	if c.ended || l.closed {
		_ = conn.Close()
		return false
	}
	l.conns[c] = struct{}{}
	return true
}

// direct notes to which node c goes.
func (l *quorumLinks) direct(c *quorumConn, port int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.to = slices.IndexFunc(l.ports[:], func(ports []int) bool { return slices.Contains(ports, port) })
	return c.to >= 0
}

// await returns when c is not cut, and reports whether it lives.
func (l *quorumLinks) await(c *quorumConn) bool {
	for {
		l.mu.Lock()
		ended, cut, healed := c.ended, l.cuts(c), l.healed
		l.mu.Unlock()
		if ended || !cut {
			return !ended
		}
		<-healed
	}
}

// cuts reports that c joins nodes that are cut from each other. l.mu is held.
func (l *quorumLinks) cuts(c *quorumConn) bool {
	return c.to >= 0 && (l.isCut[c.from] || l.isCut[c.to])
}

func (l *quorumLinks) end(c *quorumConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.endNow(c)
}

// endNow closes both ends. l.mu is held.
func (l *quorumLinks) endNow(c *quorumConn) {
	c.ended = true
	delete(l.conns, c)
	for _, conn := range c.ends {
		_ = conn.Close()
	}
}

func (l *quorumLinks) cut(node int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isCut[node] = true
}

func (l *quorumLinks) heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.endConns(l.cuts)
}

// endConns ends all cuts, and the connections that which picks. l.mu is held.
func (l *quorumLinks) endConns(which func(*quorumConn) bool) {
	for c := range l.conns {
		if which(c) {
			l.endNow(c)
		}
	}
	l.isCut = [ensembleSize]bool{}
	close(l.healed)
	l.healed = make(chan struct{})
}

func (l *quorumLinks) close() error {
	l.mu.Lock()
	l.closed = true
	l.endConns(func(*quorumConn) bool { return true })
	l.mu.Unlock()
	var errs []error
	for _, front := range l.fronts {
		if front != nil {
			errs = append(errs, front.Close())
		}
	}
	l.running.Wait()
	return errors.Join(errs...)
}
