package main

import (
	"context"
	"net"
	"net/url"
	"time"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/internal/faultproxy"
)

// proxiedSchemes are those behind whose URL stands one TCP server, without TLS, whose address can be exchanged for that
// of a proxy, by the port that is the default.
var proxiedSchemes = map[string]string{"redis": "6379"}

// conformTarget is what the suite runs against: a server, where possible through a proxy that breaks connections.
type conformTarget struct {
	config  conformance.Config
	proxied bool
	close   func()
}

func newConformTarget(rawURL string) (*conformTarget, error) {
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
	if u.Port() != "" {
		port = u.Port()
	}
	proxy, err := faultproxy.New(net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		return nil, failf(exitFailed, "%v", err)
	}
	u.Host = proxy.Addr()
	t.config.Direct, t.config.Target = rawURL, u.String()
	t.config.Faults = proxyFaults(proxy)
	t.proxied, t.close = true, func() { _ = proxy.Close() }
	return t, nil
}

// proxyFaults are the faults that a proxy can produce without knowing the protocol.
func proxyFaults(p *faultproxy.Proxy) conformance.Faults {
	always := func(f func()) func(context.Context) error {
		return func(context.Context) error { f(); return nil }
	}
	return conformance.Faults{
		Restore: p.Restore,
		Sever:   always(p.Cut),
		Cut:     always(p.KillConns),
		Freeze:  always(p.Freeze),
		Delay:   func(_ context.Context, d time.Duration) error { p.Delay(d); return nil },
		DropReply: func(_ context.Context, op conformance.Op) (<-chan struct{}, error) {
			if op != conformance.OpAny {
				return nil, conformance.ErrNoFault
			}
			return p.DropReply(nil), nil
		},
		CutAfter: func(_ context.Context, n int) (<-chan struct{}, error) { return p.CutAfter(n), nil },
		Conns:    func(context.Context) (int, error) { return p.Conns(), nil },
		Requests: func(context.Context) (int64, error) { return p.Requests(), nil },
	}
}
