package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"

	"github.com/lockport/lockport/conformance/faultproxy"
)

// quorumLinks are the ways between the nodes of an ensemble or a cluster. Every node has a SOCKS proxy of its own, through which it makes every connection to
// the others, and behind that a [faultproxy.Proxy] for each of their ports. Without SOCKS the nodes would pass the proxies by: a node of ZooKeeper that hears
// from another connects back to the address that this one says it listens on. Nor could a proxy tell which node connects to it.
type quorumLinks struct {
	ports   [ensembleSize][]int // that the nodes listen on for each other
	fronts  [ensembleSize]net.Listener
	ways    [ensembleSize]map[int]*faultproxy.Proxy // from a node to another one's port
	ctx     context.Context                         // ends at close
	end     context.CancelFunc
	running sync.WaitGroup

	mu     sync.Mutex // guards all below
	isCut  [ensembleSize]bool
	healed chan struct{} // closed when the cuts of now are no more
}

// newQuorumLinks makes the links of nodes that listen on these ports for each other.
func newQuorumLinks(ports [ensembleSize][]int) (*quorumLinks, error) {
	l := &quorumLinks{ports: ports, healed: make(chan struct{})}
	l.ctx, l.end = context.WithCancel(context.Background())
	for i := range l.fronts {
		front, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, errors.Join(err, l.close())
		}
		l.fronts[i], l.ways[i] = front, make(map[int]*faultproxy.Proxy)
		for _, port := range slices.Concat(ports[:]...) {
			if l.ways[i][port], err = faultproxy.New(hostPort(port)); err != nil {
				delete(l.ways[i], port)
				return nil, errors.Join(err, l.close())
			}
		}
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

// serve lives as long as the connection. It ends both sides when one ends, as they do when a process is killed.
func (l *quorumLinks) serve(from int, conn net.Conn) {
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(l.ctx, func() { _ = conn.Close() })()
	port, err := socksRequest(conn)
	way := l.ways[from][port]
	if err != nil || way == nil {
		return
	}
	if healed := l.cutTo(from, port); healed != nil {
		<-healed
		return
	}
	// A proxy accepts what a node refuses because it does not listen yet, and that makes a follower choose its leader anew.
	peer, err := net.DialTimeout("tcp", hostPort(port), wordTime)
	if err == nil {
		_ = peer.Close()
		peer, err = net.DialTimeout("tcp", way.Addr(), wordTime)
	}
	if socksReply(conn, err) != nil || err != nil {
		return
	}
	l.running.Go(func() {
		_, _ = io.Copy(peer, conn)
		_ = peer.Close()
	})
	_, _ = io.Copy(conn, peer)
	_ = peer.Close()
}

// cutTo returns nil, or what is closed when a node is no longer cut from a port.
func (l *quorumLinks) cutTo(from, port int) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if to := l.owner(port); l.isCut[from] || l.isCut[to] {
		return l.healed
	}
	return nil
}

// owner is the node that listens on port.
func (l *quorumLinks) owner(port int) int {
	return slices.IndexFunc(l.ports[:], func(ports []int) bool { return slices.Contains(ports, port) })
}

func (l *quorumLinks) cut(node int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isCut[node] = true
	for from, ways := range l.ways {
		for port, way := range ways {
			if from == node || l.owner(port) == node {
				way.Freeze()
			}
		}
	}
}

func (l *quorumLinks) heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for from, ways := range l.ways {
		for port, way := range ways {
			if l.isCut[from] || l.isCut[l.owner(port)] {
				way.DropHeld()
			}
		}
	}
	l.isCut = [ensembleSize]bool{}
	close(l.healed)
	l.healed = make(chan struct{})
}

func (l *quorumLinks) close() error {
	l.end()
	l.heal()
	var errs []error
	for i, front := range l.fronts {
		if front != nil {
			errs = append(errs, front.Close())
		}
		for _, way := range l.ways[i] {
			errs = append(errs, way.Close())
		}
	}
	l.running.Wait()
	return errors.Join(errs...)
}
