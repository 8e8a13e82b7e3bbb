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
	// Chroot is the path below which the locks are: "/locks". It is created if it is missing. Default: the root.
	Chroot string

	// TTL is the session timeout, in whole milliseconds: at most so long after this process fell silent is what it
	// holds granted to another. One session carries all locks, so a claim cannot have another TTL. A server grants 2 to 20 of its ticks
	// unless it is configured otherwise: one that grants more than TTL, or less than half of it, is refused. Default: that of
	// lockport.TTL, if New gets it, else 15 s.
	//
	// A connection of the caller's does not tell its timeout. Without Log, TTL must be what the server granted to it, and is not checked: a
	// holder that is cut off would believe too long. The server grants what zk.Connect asks for, within its limits.
	TTL time.Duration

	// Log, for a connection of the caller's, learns what timeout the server granted; see there. Without it TTL has no default.
	Log *Log

	// TickTime is the tickTime of the servers. It is how old a confirmation must be taken to be. Default: half the smallest
	// session timeout that the server grants, for which it is asked once, by a session of its own; set it where minSessionTimeout is
	// configured below two ticks. On a connection of the caller's it is 3 s, and has to be set for a TTL below 9 s, and where the servers' is longer.
	TickTime time.Duration

	// ReadWriteLock shares names with Curator's InterProcessReadWriteLock, whose write lock is Acquire and whose read lock is Acquire with
	// lockport.Shared. Default: writers share names with its InterProcessMutex, which the read-write lock does not see, nor the reverse. Every
	// client of a name should have the same value.
	ReadWriteLock bool

	// ACL is that of the nodes that are created. Default: everything for this user and nothing for others, or everything for
	// everybody where Username is empty. It must let this user create, read and delete.
	ACL []zk.ACL

	// Username and Password are those of ZooKeeper's digest authentication. Default: none. For Connect only: others authenticate their connections
	// by AddAuth, and set ACL.
	Username, Password string

	// Dial connects to a server; a tls.Dialer's DialContext makes it TLS. It must heed ctx, and may be called concurrently.
	// Default: that of a net.Dialer. For Connect only.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// defaultTick is what ZooKeeper takes where it is not configured; its sample configuration has 2 s.
const defaultTick = 3 * time.Second

// prepareShared checks o and puts in the defaults, for a connection of the caller's.
func (o *Options) prepareShared() error {
	switch {
	case o.TTL == 0 && o.Log == nil:
		return errors.New("the connection's session timeout is not known: give it as the TTL, or give the option Log")
	case o.Username != "" || o.Password != "" || o.Dial != nil:
		return errors.New("the options Username, Password and Dial are for a connection that the backend makes; this one is given")
	}
	if err := o.prepare(); err != nil {
		return err
	}
	if o.TickTime == 0 && o.TTL < 3*defaultTick {
		return fmt.Errorf("the TTL %v is short: say the servers' tickTime, in the option TickTime, which is taken to be %v", o.TTL, defaultTick)
	}
	return nil
}

// prepareOwn checks o and puts in the defaults, for a connection to addresses, which it completes.
func (o *Options) prepareOwn(addresses []string) ([]string, error) {
	if len(addresses) == 0 {
		return nil, errors.New("no server is named")
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

// prepare checks o and puts in the defaults that all connections share.
func (o *Options) prepare() error {
	if o.Chroot = strings.TrimRight(o.Chroot, "/"); o.Chroot != "" {
		if err := checkPath(o.Chroot); err != nil {
			return err
		}
	}
	if o.TTL == 0 {
		o.TTL = lockport.DefaultTTL
	}
	switch {
	case o.TTL < time.Millisecond || o.TTL%time.Millisecond != 0 || o.TTL > math.MaxInt32*time.Millisecond:
		return fmt.Errorf("the TTL is %v; it must be a whole number of milliseconds", o.TTL)
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

// checkPath holds what the server demands of a path.
func checkPath(path string) error {
	if path[0] != '/' {
		return fmt.Errorf("the chroot %q does not begin with a slash", path)
	}
	for _, part := range strings.Split(path[1:], "/") {
		if part == "" || part == "." || part == ".." || strings.ContainsFunc(part, func(r rune) bool {
			return r <= 0x1f || r >= 0x7f && r <= 0x9f || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0 && r <= 0xffff
		}) {
			return fmt.Errorf("the chroot %q is no path that ZooKeeper accepts", path)
		}
	}
	if path == "/zookeeper" || strings.HasPrefix(path, "/zookeeper/") {
		return fmt.Errorf("the chroot %q is ZooKeeper's own", path)
	}
	return nil
}
