package servers

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"time"
)

// quorumLinks carry the traffic between the nodes of a cluster or an ensemble. Each node has its own SOCKS proxy, through which it connects to the
// others. Without SOCKS a proxy could not tell which node connects. ZooKeeper nodes would also bypass other proxies: they connect back to the
// address that a peer advertises.
type quorumLinks struct {
	ports  []int // each node listens for the others on its port and on port + peerOffset
	fronts []net.Listener

	mu     sync.Mutex // guards the fields below
	isCut  []bool
	joined chan struct{} // closed by the next join
}

func newQuorumLinks(ports []int) (*quorumLinks, error) {
	l := &quorumLinks{ports: ports, isCut: make([]bool, len(ports)), joined: make(chan struct{})}
	for i := range ports {
		front, err := net.Listen("tcp", hostPort(0))
		if err != nil {
			return nil, errors.Join(err, l.close())
		}
		l.fronts = append(l.fronts, front)
		go func() {
			for conn, err := front.Accept(); err == nil; conn, err = front.Accept() {
				go l.serve(i, conn)
			}
		}()
	}
	return l, nil
}

// serve handles one connection. When one side ends it closes the other, as if a process were killed.
func (l *quorumLinks) serve(from int, conn net.Conn) {
	defer func() { _ = conn.Close() }()
	port, err := socksRequest(conn)
	to := slices.IndexFunc(l.ports, func(p int) bool { return port == p || port == p+peerOffset })
	if err != nil || to < 0 || l.waitIfCut(from, to) {
		return
	}
	const succeeded, refused = 0, 5
	reply := []byte{5, succeeded, 0, 1, 127, 0, 0, 1, 0, 0} // Java and Go ignore the address
	peer, err := net.DialTimeout("tcp", hostPort(port), time.Second)
	if err != nil {
		reply[1] = refused
	}
	if _, failed := conn.Write(reply); failed != nil || err != nil {
		return
	}
	defer func() { _ = peer.Close() }()
	go l.carry(peer, conn, from, to)
	l.carry(conn, peer, from, to)
}

// carry copies from src to dst until one of them ends. A cut drops data, and its end closes the connection.
func (l *quorumLinks) carry(dst, src net.Conn, from, to int) {
	defer func() { _, _ = dst.Close(), src.Close() }()
	for buffer := make([]byte, 32<<10); ; {
		n, err := src.Read(buffer)
		if l.waitIfCut(from, to) {
			return
		}
		if _, failed := dst.Write(buffer[:n]); err != nil || failed != nil {
			return
		}
	}
}

// waitIfCut reports whether two nodes are cut from each other. If so, it waits until they are joined.
func (l *quorumLinks) waitIfCut(a, b int) bool {
	l.mu.Lock()
	isCut, joined := l.isCut[a] || l.isCut[b], l.joined
	l.mu.Unlock()
	if isCut {
		<-joined
	}
	return isCut
}

func (l *quorumLinks) cut(i int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isCut[i] = true
}

func (l *quorumLinks) join() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.isCut)
	close(l.joined)
	l.joined = make(chan struct{})
}

// close ends the links of nodes that have ended. Their connections end with them.
func (l *quorumLinks) close() (err error) {
	if l == nil {
		return nil
	}
	l.join()
	for _, front := range l.fronts {
		err = errors.Join(err, front.Close())
	}
	return err
}

// socksRequest answers the greeting of a SOCKS5 client (RFC 1928) and returns the requested port. All nodes are on this host.
func socksRequest(conn io.ReadWriter) (port int, err error) {
	var greeting [2]byte // version, number of methods
	_, err1 := io.ReadFull(conn, greeting[:])
	_, err2 := io.CopyN(io.Discard, conn, int64(greeting[1]))
	_, err3 := conn.Write([]byte{5, 0}) // no authentication
	var request [10]byte                // version, command, 0, type of address, IPv4 address, port
	_, err4 := io.ReadFull(conn, request[:])
	if !bytes.HasPrefix(request[:], []byte{5, 1, 0, 1}) {
		err = errors.New("servers: not a SOCKS5 request to connect to an IPv4 address")
	}
	return int(binary.BigEndian.Uint16(request[8:])), errors.Join(err1, err2, err3, err4, err)
}
