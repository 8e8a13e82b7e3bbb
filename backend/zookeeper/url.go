package zookeeper

import (
	"errors"
	"net/url"
	"strconv"

	"github.com/go-zookeeper/zk"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lockurl"
)

func init() {
	lockport.Register(lockport.Scheme{
		Name:    "zookeeper",
		Open:    open,
		Example: "zookeeper://user:password@localhost:2181,localhost:2182/locks",
		Params: []lockport.Param{
			{Name: "addr", Text: "another server, host:port; repeatable; needed for more than one IPv6 address"},
			{Name: "read_write_lock", Text: "true: share names with Curator's InterProcessReadWriteLock, not with its InterProcessMutex"},
			{Name: "tick_time", Text: "the servers' tickTime; default: half the smallest session timeout that they grant"},
		},
		Capabilities: capabilities(lockport.DefaultTTL),
	})
}

// open makes a backend from a URL, without I/O.
func open(u *url.URL, so lockport.SchemeOptions) (driver.Backend, error) {
	if u.Host == "" || u.Fragment != "" {
		return nil, errors.New("want zookeeper://host:port,host:port/path")
	}
	p := lockurl.Of(u)
	o := Options{TTL: so.TTL, Chroot: u.Path, TickTime: p.Duration("tick_time"), ReadWriteLock: p.Bool("read_write_lock", false)}
	o.Username = u.User.Username()
	o.Password, _ = u.User.Password()
	addresses := p.Hosts(strconv.Itoa(zk.DefaultPort))
	if err := p.Err(); err != nil {
		return nil, err
	}
	return ConnectBackend(addresses, o)
}
