package redlock

import (
	"fmt"
	"net/url"
	"strings"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

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
	p.ForGoRedis()
	rest, err := p.Rest()
	if err != nil {
		return nil, err
	}
	common := *u
	common.Scheme, common.Host, common.RawQuery = strings.Replace(u.Scheme, "redlock", "redis", 1), "", rest.Encode()
	each, err := goredis.ParseURL(common.String())
	if err != nil {
		return nil, fmt.Errorf("redlock URL: %w", err)
	}
	each.ContextTimeoutEnabled, each.DialerRetries = true, 1
	// Each of these would cost a round trip per new connection.
	each.DisableIdentity, each.MaintNotificationsConfig = true, &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	if each.TLSConfig != nil {
		each.TLSConfig.ServerName = "" // the host of each node's address
	}
	var nodes []*goredis.Client
	for _, host := range hosts {
		one := *each
		one.Addr = strings.ToLower(host)
		nodes = append(nodes, goredis.NewClient(&one))
	}
	b, err := NewBackend(nodes, o)
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
