package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockport/lockport"
)

// Options are the options of the backend. The zero value is useful.
type Options struct {
	// Chroot is the path that contains the locks: "/locks". It is created if missing. Default: the root.
	Chroot string

	// TTL is the session timeout, in whole milliseconds. If the process goes silent, its locks become free after at most this long. One session
	// carries all locks, so they share one TTL. A server grants 2 to 20 of its ticks unless configured otherwise. If it grants more than
	// TTL, or less than half, it is refused. Default: lockport.TTL's value if New gets that option, else 15 s.
	//
	// A caller's connection does not reveal its timeout. Without Log, TTL must be what the server granted, and is not checked: with a longer
	// TTL, a holder that is cut off would trust its lock too long. The server grants what zk.Connect requests, within its limits.
	TTL time.Duration

	// Log learns the session timeout that the server granted to a caller's connection; see the type Log. Without it TTL has no default.
	Log *Log

	// TickTime is the servers' tickTime: a confirmation of the session counts as this old. Default: half the smallest session timeout that the
	// server grants, found by one short session. Set it if minSessionTimeout is below two ticks. On a caller's connection the default is
	// 3 s: set it for a TTL below 9 s, or if the servers' is longer.
	TickTime time.Duration

	// ReadWriteLock shares names with Curator's InterProcessReadWriteLock: Acquire is its write lock, Acquire with lockport.Shared its read
	// lock. Default: writers share names with InterProcessMutex. Locks of the two kinds do not see each other. All clients of a name should
	// use the same value.
	ReadWriteLock bool

	// ACL is set on created nodes. Default: all rights for this user and none for others, or all rights for everybody if Username is empty.
	// It must let this user create, read and delete.
	ACL []zk.ACL

	// Username and Password are for digest authentication. Default: none. For Connect only: on your own connection, call AddAuth, and set ACL.
	Username, Password string

	// Dial connects to a server; the DialContext of a tls.Dialer adds TLS. It must honor ctx, and may be called concurrently. Default: that of
	// a net.Dialer. For Connect only.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// defaultTick is ZooKeeper's default; its sample configuration has 2 s.
const defaultTick = 3 * time.Second

// prepareShared checks o and fills in defaults, for a caller's connection.
func (o *Options) prepareShared() error {
	switch {
	case o.TTL == 0 && o.Log == nil:
		return errors.New("the connection's session timeout is unknown: set the option TTL to it, or set the option Log")
	case o.Username != "" || o.Password != "" || o.Dial != nil:
		return errors.New("the options Username, Password and Dial need a connection that the backend makes: use Connect")
	}
	if err := o.prepare(); err != nil {
		return err
	}
	if o.TickTime == 0 && o.TTL < 3*defaultTick {
		return fmt.Errorf("the TTL %v is short: set the option TickTime to the servers' tickTime; %v is assumed", o.TTL, defaultTick)
	}
	return nil
}

// prepareOwn checks o, fills in defaults and completes addresses, for a connection of our own.
func (o *Options) prepareOwn(addresses []string) ([]string, error) {
	if len(addresses) == 0 {
		return nil, errors.New("no server address")
	}
	complete := zk.FormatServers(addresses)
	for _, a := range complete {
		if host, port, err := net.SplitHostPort(a); err != nil || host == "" || port == "" {
			return nil, fmt.Errorf("bad server address %q: want host:port", a)
		}
	}
	if o.Log == nil {
		o.Log = new(Log)
	}
	if o.Dial == nil {
		o.Dial = new(net.Dialer).DialContext
	}
	return complete, o.prepare()
}

// prepare checks o and fills in the defaults of all connections.
func (o *Options) prepare() error {
	o.Chroot = strings.TrimRight(o.Chroot, "/")
	if o.TTL == 0 {
		o.TTL = lockport.DefaultTTL
	}
	switch {
	case o.Chroot != "" && o.Chroot[0] != '/':
		return fmt.Errorf("the chroot %q does not begin with a slash", o.Chroot)
	case strings.HasPrefix(o.Chroot+"/", "/zookeeper/"):
		return fmt.Errorf("the chroot %q is reserved by ZooKeeper", o.Chroot)
	case o.TTL < time.Millisecond || o.TTL%time.Millisecond != 0 || o.TTL > math.MaxInt32*time.Millisecond:
		return fmt.Errorf("the TTL is %v; it must be a whole number of milliseconds, at most %v", o.TTL, math.MaxInt32*time.Millisecond)
	case o.TickTime < 0:
		return fmt.Errorf("the option TickTime is %v; it cannot be negative", o.TickTime)
	case o.Username == "" && o.Password != "":
		return errors.New("there is a password without a user name")
	case strings.Contains(o.Username, ":"):
		return errors.New("the user name contains a colon, which digest authentication cannot have")
	}
	if len(o.ACL) == 0 {
		if o.Username != "" {
			o.ACL = zk.AuthACL(zk.PermAll)
		} else {
			o.ACL = zk.WorldACL(zk.PermAll)
		}
	}
	return nil
}
