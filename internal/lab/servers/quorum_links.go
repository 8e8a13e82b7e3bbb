package servers

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"time"
)

// quorumLinks carry what the nodes of an ensemble or a cluster say to each other. Every node has a SOCKS proxy of its own, through which it
// makes every connection to the others. Without SOCKS no proxy could tell which node connects to it, and the nodes of ZooKeeper would pass the
// proxies by: a node that hears from another connects back to the address that this one says it listens on.
type quorumLinks struct {
	ports  []int // each node listens for the others on its port, and on that plus peerOffset
	fronts []net.Listener
	ctx    context.Context // ends at close
	end    context.CancelFunc

	mu     sync.Mutex // guards all below
	isCut  []bool
	healed chan struct{} // closed when the cuts of now are no more
}

// newQuorumLinks makes the links of the nodes that have these ports.
func newQuorumLinks(ports []int) (*quorumLinks, error) {
	l := &quorumLinks{ports: ports, isCut: make([]bool, len(ports)), healed: make(chan struct{})}
	l.ctx, l.end = context.WithCancel(context.Background())
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

// serve lives as long as the connection. It ends both sides when one ends, as they do when a process is killed.
func (l *quorumLinks) serve(from int, conn net.Conn) {
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(l.ctx, func() { _ = conn.Close() })()
	port, err := socksRequest(conn)
	to := slices.IndexFunc(l.ports, func(p int) bool { return port == p || port == p+peerOffset })
	if err != nil || to < 0 || l.waitIfCut(from, to) {
		return
	}
	const succeeded, refused = 0, 5
	reply := []byte{5, succeeded, 0, 1, 127, 0, 0, 1, 0, 0} // neither Java nor Go cares for the address
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

// carry copies what src says to dst until one of them ends. What is said while the nodes are cut from each other is lost, and so
// is the connection when they no longer are.
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

// waitIfCut reports whether two nodes are cut from each other, and if so, waits until they are healed.
func (l *quorumLinks) waitIfCut(a, b int) bool {
	l.mu.Lock()
	isCut, healed := l.isCut[a] || l.isCut[b], l.healed
	l.mu.Unlock()
	if isCut {
		<-healed
	}
	return isCut
}

// CutFromQuorum cuts node i (0 to 2) from the other nodes, as a broken network does: silently, so that each side goes on for a while before it
// notices. Clients still reach the node. Cuts add up. An etcd cluster must have been started with EtcdOptions.Cuttable.
func (l *quorumLinks) CutFromQuorum(i int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isCut[i] = true
}

// Heal ends all cuts: what was under way between the nodes is lost, and they connect anew.
func (l *quorumLinks) Heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.isCut)
	close(l.healed)
	l.healed = make(chan struct{})
}

func (l *quorumLinks) close() (err error) {
	if l == nil {
		return nil
	}
	l.end()
	l.Heal()
	for _, front := range l.fronts {
		err = errors.Join(err, front.Close())
	}
	return err
}

// socksRequest answers the greeting of a SOCKS5 client (RFC 1928), and returns the port of this machine to which it asks to be connected,
// whatever it calls the machine.
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
