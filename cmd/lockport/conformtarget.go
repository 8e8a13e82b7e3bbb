package main

import (
	"context"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/internal/faultproxy"
)

// proxiedSchemes are those behind whose URL stand TCP servers, without TLS, whose addresses can be exchanged for those of proxies, by the port
// that is the default. A URL names one, or several with commas between them.
var proxiedSchemes = map[string]string{
	"redis": "6379", "redlock": "6379", "etcd": "2379", "zookeeper": "2181", "postgres": "5432", "postgresql": "5432", "mysql": "3306",
}

// conformTarget is what the suite runs against: servers, where possible each through a proxy that breaks connections.
type conformTarget struct {
	config  conformance.Config
	proxied bool
	close   func()
}

func newConformTarget(rawURL string) (*conformTarget, error) {
	rawURL = withSessionTTL(rawURL)
	t := &conformTarget{close: func() {}}
	t.config = conformance.Config{Open: openTarget, Target: rawURL, MinTTL: urlTTL(rawURL)}
	u, err := url.Parse(rawURL)
	if err != nil {
		return t, nil // it was opened before, so this cannot be
	}
	t.config.Local = u.Scheme == "memory"
	port, ok := proxiedSchemes[u.Scheme]
	if !ok || u.Hostname() == "" {
		return t, nil
	}
	var all proxies
	for _, server := range strings.Split(u.Host, ",") {
		proxy, err := faultproxy.New(withPort(server, port))
		if err != nil {
			all.close()
			return nil, failf(exitFailed, "%v", err)
		}
		all = append(all, proxy)
	}
	u.Host = all.addrs()
	t.config.Direct, t.config.Target = rawURL, u.String()
	t.config.Faults = all.faults()
	t.proxied, t.close = true, all.close
	return t, nil
}

// sessionTTL is the TTL of the suite on backends whose TTL is that of their session, unless the URL names another: many cases wait for one to
// pass. It is the smallest that a ZooKeeper grants with its default settings.
const sessionTTL = 4 * time.Second

func withSessionTTL(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil || urlTTL(rawURL) > 0 {
		return rawURL
	}
	for _, s := range lockport.DefaultMux().Schemes() {
		if s.Name == u.Scheme && s.Capabilities.FixedTTL > 0 {
			q := u.Query()
			q.Set("ttl", sessionTTL.String())
			u.RawQuery = q.Encode()
			return u.String()
		}
	}
	return rawURL
}

// withPort is server with port, unless it has one.
func withPort(server, port string) string {
	if _, _, err := net.SplitHostPort(server); err == nil {
		return server
	}
	return net.JoinHostPort(strings.Trim(server, "[]"), port)
}

// proxies stand before the servers of one URL, one each. A fault is one of all of them.
type proxies []*faultproxy.Proxy

func (all proxies) addrs() string {
	var list []string
	for _, p := range all {
		list = append(list, p.Addr())
	}
	return strings.Join(list, ",")
}

func (all proxies) close() {
	for _, p := range all {
		_ = p.Close()
	}
}

// each makes a fault of one that every proxy produces.
func (all proxies) each(f func(*faultproxy.Proxy)) func(context.Context) error {
	return func(context.Context) error {
		for _, p := range all {
			f(p)
		}
		return nil
	}
}

// faults are those that proxies can produce without knowing the protocol. What happens to one request, or after so many, needs a single
// server: with several, nobody could say which.
func (all proxies) faults() conformance.Faults {
	f := conformance.Faults{
		Restore: func() { _ = all.each((*faultproxy.Proxy).Restore)(context.Background()) },
		Sever:   all.each((*faultproxy.Proxy).Cut),
		Cut:     all.each((*faultproxy.Proxy).KillConns),
		Freeze:  all.each((*faultproxy.Proxy).Freeze),
		Delay: func(ctx context.Context, d time.Duration) error {
			return all.each(func(p *faultproxy.Proxy) { p.Delay((d + 1) / 2) })(ctx) // there and back
		},
		Conns:    func(context.Context) (int, error) { return sum(all, (*faultproxy.Proxy).Conns), nil },
		Requests: func(context.Context) (int64, error) { return all.requests(), nil },
	}
	if len(all) == 1 {
		p := all[0]
		f.DropReply = func(_ context.Context, op conformance.Op) (<-chan struct{}, error) {
			if op != conformance.OpAny {
				return nil, conformance.ErrNoFault
			}
			return p.DropReply(nil), nil
		}
		f.CutAfter = func(_ context.Context, n int) (<-chan struct{}, error) { return p.CutAfter(n), nil }
	}
	return f
}

// requests are those of the server that was asked most: what is asked of several at once counts once.
func (all proxies) requests() int64 {
	most := int64(0)
	for _, p := range all {
		most = max(most, p.Requests())
	}
	return most
}

func sum(all proxies, of func(*faultproxy.Proxy) int) (n int) {
	for _, p := range all {
		n += of(p)
	}
	return n
}
