package libraries

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/driver"
)

const (
	zkRoot = "/libraries"
	zkTTL  = 4 * time.Second
	zkWait = 5 * time.Second // for the first connection
)

var zkACL = zk.WorldACL(zk.PermAll)

// zkLock is a lock on ZooKeeper: whose node has the lowest number holds it. Who does not, takes its node away again.
type zkLock struct {
	lock
	addr string

	mu      sync.Mutex
	session *zkSession
	old     []*zkSession
}

// zkSession is a session that can be left without telling the server.
type zkSession struct {
	*zk.Conn
	mu   sync.Mutex
	gone bool
	wire net.Conn
}

var errGone = errors.New("this session has been left")

func dialZooKeeper(addr string) (*zkSession, error) {
	s := new(zkSession)
	conn, events, err := zk.Connect([]string{addr}, zkTTL, zk.WithLogger(silent{}), zk.WithLogInfo(false), zk.WithDialer(s.dial))
	if err != nil {
		return nil, err
	}
	s.Conn = conn
	go func() {
		for range events { // until Close
		}
	}()
	return s, nil
}

func (s *zkSession) dial(network, address string, timeout time.Duration) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		return nil, errGone
	}
	conn, err := net.DialTimeout(network, address, timeout)
	s.wire = conn
	return conn, err
}

// leave makes the server wait for the session's end.
func (s *zkSession) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = true
	if s.wire != nil {
		_ = s.wire.Close()
	}
}

// silent logs nothing.
type silent struct{}

func (silent) Printf(string, ...any) {}

func newZooKeeper(addr string) *zkLock {
	l := &zkLock{addr: addr}
	l.caps = driver.Capabilities{Backend: "zookeeper", Ends: driver.EndsSession, Token: driver.TokenData, FixedTTL: zkTTL}
	l.take, l.renew, l.release = l.queue, never, l.remove
	l.abandon = l.bury
	l.close = func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.session != nil {
			l.session.Close()
		}
		for _, s := range l.old {
			s.Close()
		}
		return nil
	}
	return l
}

// onZooKeeper opens the lock with what spoil changes.
func onZooKeeper(spoil func(*zkLock)) opener {
	return func(_ context.Context, target string) (driver.Backend, error) {
		l := newZooKeeper(target)
		spoil(l)
		return l, nil
	}
}

func zkFolder(name string) string { return zkRoot + "/" + Digest(name) }

// conn is the session, which is begun when it is first needed.
func (l *zkLock) conn() (*zkSession, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.session == nil {
		s, err := dialZooKeeper(l.addr)
		if err != nil {
			return nil, unavailable(err)
		}
		l.session = s
		for end := time.Now().Add(zkWait); time.Now().Before(end); {
			if _, _, err := s.Exists("/"); err == nil {
				break
			}
		}
	}
	return l.session, nil
}

// create creates the node of a claim, and what it needs above it.
func (s *zkSession) create(req driver.Request) (string, error) {
	folder := zkFolder(req.Name)
	there, _, err := s.Exists(folder)
	for _, parent := range []string{zkRoot, folder} {
		if err == nil && !there {
			if _, err = s.Create(parent, nil, 0, zkACL); errors.Is(err, zk.ErrNodeExists) {
				err = nil
			}
		}
	}
	if err != nil {
		return "", err
	}
	return s.Create(folder+"/"+guid(req.Owner)+"-lock-", nil, zk.FlagEphemeral|zk.FlagSequence, zkACL)
}

// node creates the node of a claim, or finds it again after the connection was lost.
func (l *zkLock) node(s *zkSession, req driver.Request) (string, error) {
	path, err := s.create(req)
	if !errors.Is(err, zk.ErrConnectionClosed) {
		return path, err
	}
	if found, stat, lookErr := s.find(req); lookErr == nil && found != "" && stat.EphemeralOwner == s.SessionID() {
		return found, nil
	}
	return "", err
}

// find looks for the node of a claim; there may be none.
func (s *zkSession) find(req driver.Request) (path string, stat *zk.Stat, err error) {
	nodes, _, err := s.Children(zkFolder(req.Name))
	for _, node := range nodes {
		if strings.HasPrefix(node, guid(req.Owner)) {
			path = zkFolder(req.Name) + "/" + node
			_, stat, err = s.Exists(path)
			return path, stat, err
		}
	}
	return "", nil, err
}

func zkNumber(node string) string { return node[len(node)-10:] }

// judge says whether path has the lowest number, and takes it away if not.
func (l *zkLock) judge(s *zkSession, req driver.Request, path string) (*claim, error) {
	nodes, _, err := s.Children(zkFolder(req.Name))
	if err != nil {
		return nil, unknown(err)
	}
	for _, node := range nodes {
		if zkNumber(node) < zkNumber(path) {
			if err := s.Delete(path, -1); err != nil && !errors.Is(err, zk.ErrNoNode) {
				return nil, unknown(err)
			}
			return nil, driver.ErrHeld
		}
	}
	_, stat, err := s.Exists(path)
	if err != nil {
		return nil, unknown(err)
	}
	return &claim{grant: driver.Grant{Token: uint64(stat.Czxid)}, own: path}, nil
}

func (l *zkLock) queue(_ context.Context, req driver.Request) (*claim, error) {
	s, err := l.conn()
	if err != nil {
		return nil, err
	}
	path, err := l.node(s, req)
	if err != nil {
		return nil, unknown(err)
	}
	return l.judge(s, req, path)
}

func (l *zkLock) remove(_ context.Context, c *claim) error {
	s, err := l.conn()
	if err != nil {
		return err
	}
	err = s.Delete(c.own.(string), -1)
	if errors.Is(err, zk.ErrNoNode) {
		return driver.ErrLost
	}
	return unknown(err)
}

// bury removes the node of a claim, wherever it got to.
func (l *zkLock) bury(_ context.Context, req driver.Request) error {
	s, err := l.conn()
	if err != nil {
		return err
	}
	path, _, err := s.find(req)
	if path == "" && (err == nil || errors.Is(err, zk.ErrNoNode)) {
		return nil
	}
	if path != "" {
		err = s.Delete(path, -1)
	}
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	return unknown(err)
}

// isZooKeeperOp looks at the operations of requests, of which several may have been written together. A claim creates an ephemeral node.
func isZooKeeperOp(op conformance.Op, p []byte) bool {
	const create, remove = 1, 2
	for len(p) >= 12 {
		n := int(binary.BigEndian.Uint32(p)) + 4
		if n > len(p) {
			break
		}
		switch kind, flags := binary.BigEndian.Uint32(p[8:]), p[n-1]; {
		case op == conformance.OpAcquire && kind == create && flags&zk.FlagEphemeral != 0, op == conformance.OpRelease && kind == remove:
			return true
		}
		p = p[n:]
	}
	return false
}
