package session

import (
	"bytes"
	"context"
	"net/url"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/driver"
)

func TestMain(m *testing.M) {
	conformance.WorkerMain(open)
	os.Exit(m.Run())
}

// suiteTTL is the TTL of the suite.
const suiteTTL = time.Second

// open makes a backend on a netServer, from "fake://address?blockers=4&deaf=1".
func open(_ context.Context, target string) (driver.Backend, error) {
	u, err := url.Parse(target)
	if err != nil {
		return nil, err
	}
	blockers, err := strconv.Atoi(u.Query().Get("blockers"))
	if err != nil {
		return nil, err
	}
	wake := driver.WakeQueue
	if blockers == 0 {
		wake = driver.WakeNotify
	}
	b := New(&netDialer{addr: u.Host, ttl: suiteTTL}, Options{
		TTL: suiteTTL, Blockers: blockers, Layout: plainLayout,
		Capabilities: driver.Capabilities{
			Backend: "fake", Token: driver.TokenData, Wake: wake, Failover: driver.FailoverNone,
			Contended:     !u.Query().Has("deaf"),
			RemovalNotice: func(time.Duration) time.Duration { return 100 * time.Millisecond },
		},
	})
	if blockers == 0 {
		return notWaiting{b, b, b}, nil
	}
	return b, nil
}

// notWaiting hides that a Backend is a driver.Waiter.
type notWaiting struct {
	driver.Backend
	driver.Notifier
	driver.BatchRenewer
}

func plainLayout(name string) (Key, error) { return Key(name), nil }

// TestConformance runs the suite on a server that can tell who waits, with as many blockers as matter, and with none.
func TestConformance(t *testing.T)         { suite(t, "blockers=4", false) }
func TestConformanceNotified(t *testing.T) { suite(t, "blockers=0", false) }

// TestConformanceDeaf runs it on a server that cannot tell.
func TestConformanceDeaf(t *testing.T) { suite(t, "blockers=2&deaf=1", true) }

func suite(t *testing.T, query string, deaf bool) {
	t.Parallel() // with the other two: they wait most of the time
	s := serve(t)
	s.deaf = deaf
	proxy, err := faultproxy.New(s.listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = proxy.Close() })
	conformance.Test(t, conformance.Config{
		Open:   open,
		Target: "fake://" + proxy.Addr() + "?" + query,
		Direct: "fake://" + s.listener.Addr().String() + "?" + query,
		MinTTL: suiteTTL,
		Faults: conformance.Faults{
			Restore: proxy.Restore,
			Sever:   func(context.Context) error { proxy.Cut(); return nil },
			Cut:     func(context.Context) error { proxy.KillConns(); return nil },
			Freeze:  func(context.Context) error { proxy.Freeze(); return nil },
			Delay:   func(_ context.Context, d time.Duration) error { proxy.Delay(d / 2); return nil },
			DropReply: func(_ context.Context, op conformance.Op) (<-chan struct{}, error) {
				return proxy.DropReply(func(request []byte) bool { return isOp(op, request) }), nil
			},
			CutAfter:  func(_ context.Context, n int) (<-chan struct{}, error) { return proxy.CutAfter(n), nil },
			Remove:    func(_ context.Context, name string) error { s.kick(Key(name)); return nil },
			Overwrite: func(_ context.Context, name string) error { s.seize(Key(name)); return nil },
			Restart:   func(_ context.Context, keepData bool) error { s.restart(keepData); return nil },
			Leftovers: func(_ context.Context, prefix string) ([]string, error) { return s.left(prefix), nil },
			Conns:     func(context.Context) (int, error) { return proxy.Conns(), nil },
			Requests:  func(context.Context) (int64, error) { return proxy.Requests(), nil },
		},
	})
}

func isOp(op conformance.Op, request []byte) bool {
	if op == conformance.OpAny {
		return true
	}
	letter := map[conformance.Op]string{conformance.OpAcquire: "T", conformance.OpRenew: "P", conformance.OpRelease: "F"}[op]
	return bytes.Contains(request, []byte(`"K":"`+letter+`"`))
}
