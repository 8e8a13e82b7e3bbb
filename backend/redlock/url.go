package redlock

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lockurl"
)

func init() {
	for _, scheme := range []string{"redlock", "redlocks"} {
		lockport.Register(lockport.Scheme{
			Name: scheme, Open: open, Params: params, Capabilities: capabilities,
			Example: scheme + "://user:password@host1:6379,host2:6379,host3:6379/0",
		})
	}
}

var params = []lockport.Param{
	{Name: "addr", Text: "another node, host:port; repeatable; needed for more than one IPv6 address"},
	{Name: "prefix", Text: `prefix of all keys; default "lockport:"; may be empty`},
	{Name: "node_timeout", Text: "how long to wait for one node while the others leave the outcome open; default half of the TTL, at most 1s"},
	{Name: "…", Text: "parameters of go-redis' ParseURL, for every node: dial_timeout, client_name, skip_verify, …"},
}

// open makes a backend from a URL, with its own clients.
func open(u *url.URL, _ lockport.SchemeOptions) (driver.Backend, error) {
	p := lockurl.Of(u)
	o := Options{NodeTimeout: p.Duration("node_timeout")}
	o.Prefix, o.NoPrefix = p.Prefix()
	hosts := p.Hosts("6379")
	p.Connections()
	rest, err := p.Rest()
	if err != nil {
		return nil, err
	}
	var b *Backend
	var nodes []*goredis.Client
	for _, host := range hosts {
		one := *u
		one.Scheme, one.Host, one.RawQuery = strings.Replace(u.Scheme, "redlock", "redis", 1), strings.ToLower(host), rest.Encode()
		var client *goredis.Options
		if client, err = goredis.ParseURL(one.String()); err != nil {
			if bad, ok := errors.AsType[*url.Error](err); ok { // its text has the whole URL, with the password
				err = fmt.Errorf("bad address %q: %w", host, bad.Err)
			}
			err = fmt.Errorf("redlock URL: %w", err)
			break
		}
		client.ContextTimeoutEnabled = true
		client.DialerRetries = 1
		if client.MaxRetries == 0 {
			client.MaxRetries = -1 // the lockport client retries
		}
		nodes = append(nodes, goredis.NewClient(client))
	}
	if err == nil {
		b, err = NewBackend(nodes, o)
	}
	if err != nil {
		for _, n := range nodes {
			_ = n.Close()
		}
		return nil, err
	}
	for _, n := range b.nodes {
		n.pipe.OwnsClient = true
	}
	return b, nil
}
