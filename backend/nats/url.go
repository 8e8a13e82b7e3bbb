package nats

import (
	"context"
	"fmt"
	"net/url"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lockurl"
)

func init() {
	lockport.Register(lockport.Scheme{
		Name: "nats", Open: openURL, Example: "nats://user:password@localhost:4222,other:4222?bucket=lockport", Capabilities: capabilities,
		Params: append([]lockport.Param{
			{Name: "bucket", Text: `the key-value bucket of the locks; default "lockport"`},
			{Name: "addr", Text: "another server, host:port; repeatable; needed for more than one IPv6 address"},
			{Name: "creds", Text: "file with a user's credentials (nsc); a user without a password in the URL is a token"},
			{Name: "tls", Text: "true: require TLS; default false"},
		}, lockurl.TLSParams...),
	})
}

// openURL makes a backend from a URL, with a connection of its own.
func openURL(u *url.URL, _ lockport.SchemeOptions) (driver.Backend, error) {
	p := lockurl.Of(u)
	if u.Path != "" && u.Path != "/" {
		return nil, fmt.Errorf("the NATS URL has the path %q: set the bucket by the parameter bucket", u.Path)
	}
	bucket, creds, servers := p.Text("bucket"), p.Text("creds"), p.Hosts("4222")
	opts := []natsgo.Option{
		natsgo.Name("lockport"), natsgo.MaxReconnects(-1), natsgo.IgnoreAuthErrorAbort(),
		natsgo.Timeout(connectTimeout), // nats.go keeps it for every reconnect
		natsgo.CustomReconnectDelay(func(n int) time.Duration { return min(time.Duration(n)*50*time.Millisecond, time.Second) }),
		natsgo.ReconnectBufSize(-1), // a request that cannot be sent now fails, and is not sent later
		natsgo.PingInterval(2 * time.Second), natsgo.MaxPingsOutstanding(2),
		natsgo.ErrorHandler(func(*natsgo.Conn, *natsgo.Subscription, error) {}), // the default one prints
		func(o *natsgo.Options) error { o.Servers = servers; return nil },       // Connect would split a text at commas, and a password may have one
	}
	for i, host := range servers {
		servers[i] = (&url.URL{Scheme: "nats", User: u.User, Host: host}).String()
		if _, err := url.Parse(servers[i]); err != nil { // nats.go would show it with the password
			p.Fail("bad address %q in the URL: want host:port, several with commas between them", host)
		}
	}
	if creds != "" {
		use, probe := natsgo.UserCredentials(creds), new(natsgo.Options)
		err := use(probe) // it reads the file
		if err == nil {
			_, err = probe.SignatureCB(nil) // it reads the key too
		}
		if err != nil {
			p.Fail("the URL parameter creds: %w", err)
		}
		opts = append(opts, use)
	}
	if p.Bool("tls", false) {
		opts = append(opts, natsgo.Secure(p.TLS("")))
	} else {
		p.NoTLS("tls=true")
	}
	if err := p.Err(); err != nil {
		return nil, err
	}
	return newBackend(nil, func(ctx context.Context) (jetstream.JetStream, error) {
		type result struct {
			nc  *natsgo.Conn
			err error
		}
		done := make(chan result)
		go func() {
			nc, err := natsgo.Connect("", opts...)
			select {
			case done <- result{nc, err}:
			case <-ctx.Done():
				nc.Close()
			}
		}()
		select {
		case r := <-done:
			if r.err != nil {
				return nil, r.err
			}
			return jetstream.New(r.nc)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}, Options{Bucket: bucket})
}
