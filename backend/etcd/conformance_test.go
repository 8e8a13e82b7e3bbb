package etcd

import (
	"bytes"
	"context"
	"encoding/binary"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/internal/lab/servers"
)

var defaultLayout = layout{prefix: defaultPrefix}

func TestConformance(t *testing.T) {
	t.Parallel()
	conformSingle(t, servers.EtcdOptions{})
}

func TestConformanceCurrent(t *testing.T) {
	t.Parallel()
	conformSingle(t, servers.EtcdOptions{Current: true})
}

// conformSingle runs the suite on one server behind a proxy.
func conformSingle(t *testing.T, o servers.EtcdOptions) {
	s := servers.NeedEtcd(t, o)
	first := newLane(t, s)
	conformance.Test(t, conformance.Config{Open: openBackend, Target: first.Target, Direct: s.URL(), Faults: first.Faults,
		Lanes: []conformance.Lane{newLane(t, s), newLane(t, s), newLane(t, s), newLane(t, s)}})
}

// newLane puts a proxy before a server.
func newLane(t *testing.T, s *servers.Etcd) conformance.Lane {
	proxy, err := faultproxy.New(s.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = proxy.Close() })
	f := keyFaults(newClient(t, s.URL()))
	f.Restore = proxy.Restore
	f.Sever = func(context.Context) error { proxy.Cut(); return nil }
	f.Cut = func(context.Context) error { proxy.KillConns(); return nil }
	f.Freeze = func(context.Context) error { proxy.Freeze(); return nil }
	f.Delay = func(_ context.Context, d time.Duration) error { proxy.Delay(d / 2); return nil } // there and back
	f.DropReply = func(_ context.Context, op conformance.Op) (<-chan struct{}, error) {
		return proxy.DropReply(func(request []byte) bool { return isOp(op, request) }), nil
	}
	f.CutAfter = func(_ context.Context, n int) (<-chan struct{}, error) { return proxy.CutAfter(n), nil }
	f.Conns = func(context.Context) (int, error) { return proxy.Conns(), nil }
	f.Requests = func(ctx context.Context) (int64, error) { return requestsOf(ctx, s) }
	f.Restart = func(ctx context.Context, keepData bool) error {
		if !keepData {
			return conformance.ErrNoFault // TokenData: no case asks
		}
		return unlabelled(func() error {
			if err := s.Kill(); err != nil {
				return err
			}
			return s.Restart(ctx)
		})
	}
	return conformance.Lane{Target: via(t, s.URL(), proxy.Addr()), Faults: f}
}

// via is rawURL with other addresses.
func via(t testing.TB, rawURL string, addrs ...string) string {
	u, err := url.Parse(rawURL)
	require.NoError(t, err)
	u.Host = strings.Join(addrs, ",")
	return u.String()
}

// keyFaults are those that need no proxy.
func keyFaults(c *clientv3.Client) conformance.Faults {
	return conformance.Faults{
		Remove: func(ctx context.Context, name string) error {
			_, err := c.Delete(ctx, defaultLayout.of(name), clientv3.WithPrefix())
			return err
		},
		Overwrite: func(ctx context.Context, name string) error {
			if _, err := c.Delete(ctx, defaultLayout.of(name), clientv3.WithPrefix()); err != nil {
				return err
			}
			_, err := c.Put(ctx, defaultLayout.of(name)+"694d71ddacfda227", "")
			return err
		},
		Leftovers: func(ctx context.Context, prefix string) ([]string, error) {
			r, err := c.Get(ctx, defaultPrefix+escapeName.Replace(prefix), clientv3.WithPrefix(), clientv3.WithKeysOnly())
			if err != nil {
				return nil, err
			}
			var left []string
			for _, kv := range r.Kvs {
				left = append(left, string(kv.Key))
			}
			return left, nil
		},
	}
}

// isOp tells requests apart by the messages in the frames of HTTP/2: a claim puts a key with our value, a release has one key of a claim and
// nothing else, a keep-alive a number and nothing else.
func isOp(op conformance.Op, request []byte) bool {
	request = bytes.TrimPrefix(request, []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
	for len(request) >= 9 {
		size, kind := int(binary.BigEndian.Uint32(request)>>8), request[3]
		body := request[9:]
		if size > len(body) {
			break
		}
		if kind == 0 && size > 5 && isMessage(op, body[5:size]) {
			return true
		}
		request = body[size:]
	}
	return op == conformance.OpAny
}

func isMessage(op conformance.Op, message []byte) bool {
	claims := bytes.Contains(message, []byte(valueTag))
	switch op {
	case conformance.OpAcquire:
		return claims
	case conformance.OpRenew:
		return message[0] == 8 && len(message) > 8 && len(message) <= 11
	case conformance.OpRelease:
		return message[0] == 10 && int(message[1]) == len(message)-2 && bytes.HasPrefix(message[2:], []byte(defaultPrefix))
	}
	return true
}
