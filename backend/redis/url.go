package redis

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lockurl"
)

func init() {
	for _, s := range []struct{ name, example string }{
		{"redis", "redis://user:password@localhost:6379/0"},
		{"redis+sentinel", "redis+sentinel://localhost:26379/0?master_name=mymaster&addr=localhost:26380"},
		{"redis+cluster", "redis+cluster://localhost:7000?addr=localhost:7001"},
	} {
		for _, tls := range []bool{false, true} {
			if tls {
				s.name, s.example = strings.Replace(s.name, "redis", "rediss", 1), strings.Replace(s.example, "redis", "rediss", 1)
			}
			lockport.Register(lockport.Scheme{Name: s.name, Open: open, Example: s.example, Params: params, Capabilities: capabilities})
		}
	}
}

var params = []lockport.Param{
	{Name: "prefix", Text: `prefix of all keys; default "lockport:"; may be empty`},
	{Name: "replicas", Text: "how many replicas must acknowledge a lock (WAIT); default 0"},
	{Name: "wait_timeout", Text: "how long to wait for them; default 1s"},
	{Name: "…", Text: "parameters of go-redis' ParseURL, ParseFailoverURL or ParseClusterURL: addr, dial_timeout, pool_size, skip_verify, …"},
}

// open makes a backend from a URL, with its own client.
func open(u *url.URL, _ lockport.SchemeOptions) (driver.Backend, error) {
	p := lockurl.Of(u)
	o := Options{WaitTimeout: p.Duration("wait_timeout")}
	if p.Has("replicas") {
		text := p.Text("replicas")
		var err error
		if o.Replicas, err = strconv.Atoi(text); err != nil {
			p.Fail("bad number %q of the URL parameter replicas", text)
		}
	}
	o.Prefix, o.NoPrefix = p.Prefix()
	p.ForGoRedis()
	rest, err := p.Rest()
	if err != nil {
		return nil, err
	}
	base, kind, _ := strings.Cut(u.Scheme, "+")
	own := *u
	own.Scheme, own.RawQuery = base, rest.Encode()
	if database := strings.Trim(u.Path, "/"); kind == "cluster" && database != "" && database != "0" { // go-redis ignores it
		return nil, fmt.Errorf("redis URL: a Redis Cluster has only database 0: remove /%s from the URL", database)
	}
	client, err := connect(kind, own.String())
	if err != nil {
		return nil, fmt.Errorf("redis URL: %w", err)
	}
	b, err := NewBackend(client, o)
	if err != nil {
		_ = client.Close()
		return nil, err
	}
	b.pipe.OwnsClient = true
	return b, nil
}

// connect makes a client without I/O. The client honors contexts and does not retry what the lockport client retries.
func connect(kind, rawURL string) (goredis.UniversalClient, error) {
	switch kind {
	case "sentinel":
		o, err := goredis.ParseFailoverURL(rawURL)
		if err != nil {
			return nil, err
		}
		if o.MasterName == "" {
			return nil, errors.New("the URL parameter master_name is missing: the name under which Sentinel knows the master")
		}
		if o.RouteByLatency || o.RouteRandomly || o.ReplicaOnly {
			return nil, errors.New("only the master can grant locks: remove route_by_latency, route_randomly and replica_only from the URL")
		}
		o.ContextTimeoutEnabled, o.DialerRetries = true, max(o.DialerRetries, 1)
		return goredis.NewFailoverClient(o), nil
	case "cluster":
		o, err := goredis.ParseClusterURL(rawURL)
		if err != nil {
			return nil, err
		}
		o.ContextTimeoutEnabled, o.DialerRetries = true, max(o.DialerRetries, 1)
		o.ClusterStateReloadInterval = 10 * time.Second // how soon a listener leaves a node that has left the Cluster
		return goredis.NewClusterClient(o), nil
	default:
		o, err := goredis.ParseURL(rawURL)
		if err != nil {
			return nil, err
		}
		o.ContextTimeoutEnabled, o.DialerRetries = true, 1
		// Each of these would cost a round trip per new connection.
		o.DisableIdentity, o.MaintNotificationsConfig = true, &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
		return goredis.NewClient(o), nil
	}
}
