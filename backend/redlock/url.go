package redlock

import (
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
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
	{Name: "addr", Text: "further nodes, beside those before the path; may be given several times, and must be for IPv6 addresses"},
	{Name: "prefix", Text: `what the keys begin with; default "lockport:"; may be empty`},
	{Name: "node_timeout", Text: "how long one node is waited for where the others have not decided; default half of the TTL, at most 1s"},
	{Name: "…", Text: "and those of go-redis' ParseURL, for every node: dial_timeout, client_name, skip_verify, …"},
}

// open makes a backend of a URL, with clients of its own.
func open(u *url.URL, _ lockport.SchemeOptions) (driver.Backend, error) {
	q := u.Query()
	o, err := takeOptions(q)
	if err != nil {
		return nil, err
	}
	hosts, err := splitHosts(append([]string{u.Host}, q["addr"]...))
	q.Del("addr")
	if err != nil {
		return nil, err
	}
	var nodes []*goredis.Client
	closeAll := func() {
		for _, n := range nodes {
			_ = n.Close()
		}
	}
	for _, host := range hosts {
		one := *u
		one.Scheme, one.Host, one.RawQuery = strings.Replace(u.Scheme, "redlock", "redis", 1), host, q.Encode()
		client, err := goredis.ParseURL(one.String())
		if err != nil {
			closeAll()
			return nil, fmt.Errorf("redlock URL: %w", err)
		}
		client.ContextTimeoutEnabled = true
		client.DialerRetries = 1
		if client.MaxRetries == 0 {
			client.MaxRetries = -1 // the lockport client tries again itself
		}
		nodes = append(nodes, goredis.NewClient(client))
	}
	b, err := NewBackend(nodes, o)
	if err != nil {
		closeAll()
		return nil, err
	}
	b.ownClient = true
	return b, nil
}

// splitHosts splits lists such as "h1:6379,h2" and puts in the port that is the default. net/url takes one IPv6 address alone, so the others
// come by the parameter addr.
func splitHosts(lists []string) ([]string, error) {
	const defaultPort = "6379"
	var hosts []string
	for _, host := range strings.Split(strings.Join(lists, ","), ",") {
		name, port, err := net.SplitHostPort(host)
		if err != nil { // no port
			name, port = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"), defaultPort
		}
		if name == "" || port == "" || strings.ContainsAny(name, "[] ") {
			return nil, fmt.Errorf("the host %q in the redlock URL is not of the form host:port", host)
		}
		hosts = append(hosts, net.JoinHostPort(strings.ToLower(name), port))
	}
	return hosts, nil
}

// takeOptions takes our parameters out of q.
func takeOptions(q url.Values) (o Options, err error) {
	take := func(name string) (value string, ok bool) {
		ok = q.Has(name)
		value = q.Get(name)
		q.Del(name)
		return value, ok
	}
	if prefix, ok := take("prefix"); ok {
		o.Prefix, o.NoPrefix = prefix, prefix == ""
	}
	if text, ok := take("node_timeout"); ok {
		if o.NodeTimeout, err = time.ParseDuration(text); err != nil {
			return o, fmt.Errorf("bad duration %q of the URL parameter node_timeout: want something like 500ms", text)
		}
	}
	return o, nil
}
