package zookeeper

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
)

func init() {
	lockport.Register(lockport.Scheme{
		Name:         "zookeeper",
		Open:         open,
		Example:      "zookeeper://user:password@localhost:2181,localhost:2182/locks",
		Params:       params,
		Capabilities: capabilities(lockport.DefaultTTL),
	})
}

var params = []lockport.Param{
	{Name: "addr", Text: "another server, host:port; may be repeated, and is how several are named by IPv6 address"},
	{Name: "tick_time", Text: "the servers' tickTime; default: half the smallest session timeout that they grant"},
}

// open makes a backend of a URL, without I/O.
func open(u *url.URL, so lockport.SchemeOptions) (driver.Backend, error) {
	o := Options{TTL: so.TTL}
	for name, values := range u.Query() {
		if !slices.ContainsFunc(params, func(p lockport.Param) bool { return p.Name == name }) {
			return nil, fmt.Errorf("unknown URL parameter %q; zookeeper knows: ttl, addr, tick_time", name)
		}
		if len(values) > 1 && name != "addr" {
			return nil, fmt.Errorf("the URL parameter %s is given twice", name)
		}
	}
	if text := u.Query().Get("tick_time"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			return nil, fmt.Errorf("bad duration %q of the URL parameter tick_time: want something like 2s", text)
		}
		o.TickTime = d
	}
	if u.User != nil {
		o.Username = u.User.Username()
		o.Password, _ = u.User.Password()
	}
	if u.Host == "" {
		return nil, errors.New("the URL names no server: want zookeeper://host:port,host:port/path")
	}
	if u.Fragment != "" || u.Opaque != "" {
		return nil, errors.New("want zookeeper://host:port,host:port/path")
	}
	o.Chroot = u.Path
	return NewBackend(append(strings.Split(u.Host, ","), u.Query()["addr"]...), o)
}
