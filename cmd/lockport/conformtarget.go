package main

import (
	"net/url"
	"strings"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/conformance/faultproxy"
)

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
	t.config.Local = strings.HasPrefix(rawURL, "memory:")
	through, all, err := faultproxy.ForURL(rawURL)
	switch {
	case err != nil:
		return nil, failf(exitFailed, "%v", err)
	case len(all) == 0:
		return t, nil
	}
	t.config.Direct, t.config.Target = rawURL, through
	t.config.Faults = proxyFaults(all)
	t.proxied, t.close = true, all.Close
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

// proxyFaults are those that proxies before the servers of one URL can produce without knowing the protocol. What happens to one request, or
// after so many, needs a single server: with several, nobody could say which.
func proxyFaults(all faultproxy.Group) conformance.Faults {
	f := all.Faults(nil)
	if len(all) > 1 {
		f.DropReply, f.CutAfter = nil, nil
	}
	return f
}
