package nats

import (
	"bufio"
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/pages"
)

var _ interface {
	driver.Notifier
	driver.Breaker
	driver.Checker
} = (*Backend)(nil)

// request returns a claim on name. Claims with one id have one Owner.
func request(name string, id int) driver.Request {
	return driver.Request{Name: name, Owner: fmt.Sprintf("%032x:host/1/test/x", id), TTL: 10 * time.Second}
}

// connect returns a connection that ends with the test.
func connect(t testing.TB, url string) jetstream.JetStream {
	t.Helper()
	nc := peer.Must(natsgo.Connect(url, natsgo.MaxReconnects(-1), natsgo.ReconnectWait(20*time.Millisecond), natsgo.ReconnectJitter(0, 0)))(t)
	t.Cleanup(nc.Close)
	return peer.Must(jetstream.New(nc))(t)
}

func backend(t testing.TB, js jetstream.JetStream) *Backend {
	return peer.Must(NewBackend(js, Options{}))(t)
}

// The backend's page has these vectors. A change needs a major version.
func TestLayoutGolden(t *testing.T) {
	js := connect(t, one.Need(t).URL())
	b, name := backend(t, js), "golden/{a}.%~ +锁"
	req := request(name, 1)
	req.TTL = 9500 * time.Millisecond
	reads := peer.Must(js.Conn().JetStream())(t)
	last := func() *natsgo.RawStreamMsg {
		return peer.Must(reads.GetLastMsg("KV_lockport", "$KV.lockport.golden/=7Ba=7D=2E=25=7E=20=2B=E9=94=81"))(t)
	}
	l := peer.Takes(t, b, req).(*lease)
	m := last()
	require.Equal(t, []any{req.Owner + " 10", "10s", l.Grant().Token}, []any{string(m.Data), m.Header.Get("Nats-TTL"), m.Sequence})
	require.WithinDuration(t, time.Now(), time.UnixMicro(int64(m.Sequence)), time.Hour, "a bucket made anew starts from the time of day")
	peer.Extends(t, b, l)
	peer.Extends(t, b, l)
	m = last()
	require.Equal(t, fmt.Sprint(req.Owner, " 10 ", l.Grant().Token), string(m.Data))
	require.Equal(t, "10s", m.Header.Get("Nats-TTL"), "without it the renewed key would never expire")
	st := peer.Shows(t, b, name)
	require.Equal(t, []any{m.Time.Add(10 * time.Second), l.Grant().Token}, []any{st.Expires, st.Token})
	require.Equal(t, time.Second, (&peer.Peer{T: t, Of: b}).Waits(request(name, 2)).Poll)
	require.NoError(t, l.Release(t.Context()))
	m = last()
	require.Equal(t, []string{"PURGE", "1m0s"}, []string{m.Header.Get("KV-Operation"), m.Header.Get("Nats-TTL")})
	require.Equal(t, m.Sequence, b.free.get(name), "the next claim expects it, and so needs one request")
	b.free.put(name, 0)
	peer.Shows(t, b, name)
	sent := js.Conn().Stats().OutMsgs
	l = peer.Takes(t, b, req).(*lease)
	peer.Extends(t, b, l)
	require.NoError(t, l.Release(t.Context()))
	require.Equal(t, sent+3, js.Conn().Stats().OutMsgs, "one request each, also after another client's release")
	require.NoError(t, b.Abandon(t.Context(), req))
	require.Equal(t, "1h0m0s", last().Header.Get("Nats-TTL"))
	require.Equal(t, []any{nil, true}, []any{b.Close(), js.Conn().IsConnected()}, "the connection is the caller's")
}

// A leader that lags may show a holder from before a claim: that does not reveal the outcome of the claim. One that knows neither the key nor a later
// revision than a claim's lags: the claim is not lost.
func TestLaggingLeader(t *testing.T) {
	js := connect(t, one.Need(t).URL())
	b := backend(t, js)
	l := peer.Takes(t, b, request("x", 1)).(*lease)
	b.free.put("x", l.grant.Token+1)
	require.ErrorIs(t, b.Abandon(t.Context(), request("x", 2)), driver.ErrUnavailable)
	b.free.put("x", l.grant.Token-1)
	require.NoError(t, b.Abandon(t.Context(), request("x", 2)))
	l.last.Token = peer.Takes(t, b, request("y", 1)).Grant().Token
	require.ErrorIs(t, peer.ErrOf(l.Renew(t.Context())), driver.ErrUnavailable, "it shows an older claim")
	require.NoError(t, peer.Must(js.Stream(t.Context(), b.stream()))(t).Purge(t.Context()))
	l.last.Token += 1000
	require.ErrorIs(t, peer.ErrOf(l.Renew(t.Context())), driver.ErrUnavailable)
	l.last.Token = l.grant.Token
	require.ErrorIs(t, peer.ErrOf(l.Renew(t.Context())), driver.ErrLost)
}

// The backend's page has the row of the guarantees table.
func TestCapabilitiesOnThePage(t *testing.T) {
	c := capabilities
	require.Contains(t, pages.Read(t, "backends/nats.md"), fmt.Sprintf("|nats|%v|multiples of %v|%v|%v|%v|%v|%v|nothing|\n",
		c.Ends, c.TTLGrain, c.Token, c.Fair, c.Wake, c.Failover, c.RemovalNotice(lockport.DefaultTTL)))
}

func FuzzKey(f *testing.F) {
	f.Add("a.b")
	f.Fuzz(func(t *testing.T, name string) {
		require.Equal(t, name, peer.Must(nameOf(keyOf(name)))(t))
		require.Empty(t, strings.Trim(keyOf(name), "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_/="))
	})
}

// pair returns a backend behind a proxy, which has verified the bucket, and another with a direct connection.
func pair(t testing.TB) (proxy *faultproxy.Proxy, b, other *Backend) {
	r := one.Need(t)
	proxy = peer.Proxy(t, r.Nodes()[0].Addr())
	b, other = backend(t, connect(t, proxy.Addr())), backend(t, connect(t, r.URL()))
	peer.Shows(t, b, "x")
	return proxy, b, other
}

// A reconnecting connection and the network both delay requests. Each late request must then have no effect.
func TestLateRequests(t *testing.T) {
	for what, do := range map[string]func(ctx context.Context, b *Backend, l *lease) error{
		"claim": func(ctx context.Context, b *Backend, _ *lease) error {
			return peer.ErrOf(b.TryAcquire(ctx, request("late", 9)))
		},
		"renewal": func(ctx context.Context, _ *Backend, l *lease) error { return peer.ErrOf(l.Renew(ctx)) },
		"release": func(ctx context.Context, _ *Backend, l *lease) error { return l.Release(ctx) },
	} {
		t.Run(what, func(t *testing.T) {
			proxy, b, other := pair(t)
			l := peer.Takes(t, b, request("late", 1)).(*lease)
			if what == "claim" { // the claim expects the marker of this release
				require.NoError(t, l.Release(t.Context()))
			}
			proxy.Freeze() // later writes are delayed, and arrive
			ctx := peer.Within(t, lostAfter+time.Second)
			require.ErrorIs(t, do(ctx, b, l), driver.ErrUnknown)
			require.NoError(t, ctx.Err(), "it does not wait for an answer for long")

			holder := ""
			if what == "claim" {
				require.NoError(t, other.Abandon(t.Context(), request("late", 9)), "its client abandons it over another connection")
			} else {
				require.NoError(t, other.Break(t.Context(), "late", l.req.Owner))
				holder = peer.Takes(t, other, request("late", 2)).(*lease).req.Owner
			}
			proxy.Restore()
			require.NoError(t, b.js.Conn().FlushTimeout(5*time.Second), "all writes must arrive")
			require.Equal(t, holder, peer.Shows(t, other, "late").Owner, "the late %s took effect", what)
		})
	}
}

// A claim in nats.go's reconnect buffer grants nothing that any client relies on.
func TestReconnectBuffer(t *testing.T) {
	proxy, b, other := pair(t)
	proxy.Freeze()
	peer.OnRequest(proxy, 1, proxy.Cut)
	require.ErrorIs(t, peer.ErrOf(b.Inspect(peer.Within(t, peer.Soon), "x")), natsgo.ErrDisconnected, "its answer no longer comes")

	// The backend sends nothing without a connection.
	peer.Fails(t, b, request("refused", 1), driver.ErrUnavailable)

	// But the connection may break between its check and the sending: then the claim is in the buffer.
	header := natsgo.Header{"Nats-Expected-Last-Subject-Sequence": {"0"}, "Nats-TTL": {"60s"}}
	claim := []byte(valueOf(request("", 9).Owner, time.Minute, 0))
	require.NoError(t, b.js.Conn().PublishMsg(&natsgo.Msg{Subject: b.subject("late"), Data: claim, Header: header}))
	require.NoError(t, other.Abandon(t.Context(), request("late", 9)))
	proxy.Restore()
	peer.Shows(t, b, "late") // waits for the connection, on which the claim went first
	for _, name := range []string{"refused", "late"} {
		require.False(t, peer.Shows(t, other, name).Held, name)
	}
}

// The server's marker for an expired key may overwrite an acknowledged renewal: a renewal answered that late does not count.
func TestRenewalAnsweredTooLate(t *testing.T) {
	b := backend(t, connect(t, one.Need(t).URL()))
	l := peer.Takes(t, b, request("a", 1)).(*lease)
	l.last.Until = time.Now()
	require.ErrorIs(t, peer.ErrOf(l.Renew(t.Context())), driver.ErrUnknown)
	require.ErrorIs(t, peer.ErrOf(l.Renew(t.Context())), driver.ErrUnknown, "the late one did not extend the validity")
	l.last.Until = time.Now().Add(time.Minute)
	peer.Extends(t, b, l) // its revision is known all the same
}

// A bucket that would keep locks for ever, or lose them, is refused at the first request.
func TestUnfitBuckets(t *testing.T) {
	js := connect(t, one.Need(t).URL())
	bucket := func(name string) *Backend { return peer.Must(NewBackend(js, Options{Bucket: name}))(t) }
	require.NoError(t, peer.ErrOf(js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "by-hand", LimitMarkerTTL: time.Minute})))
	b := bucket("by-hand")
	peer.Takes(t, b, request("a", 1))
	stream, moved := peer.Must(js.Stream(t.Context(), "KV_by-hand"))(t), &jetstream.SubjectTransformConfig{Destination: "to.>"}
	for name, spoil := range map[string]func(*jetstream.StreamConfig){
		"no-ttl":   func(c *jetstream.StreamConfig) { c.AllowMsgTTL, c.SubjectDeleteMarkerTTL = false, 0 },
		"history":  func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 2 },
		"own-ttl":  func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour },
		"memory":   func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage },
		"interest": func(c *jetstream.StreamConfig) { c.Retention = jetstream.InterestPolicy },
		"queue":    func(c *jetstream.StreamConfig) { c.Retention = jetstream.WorkQueuePolicy },
		"no-ack":   func(c *jetstream.StreamConfig) { c.NoAck = true },
		"tokens":   func(c *jetstream.StreamConfig) { c.FirstSeq = driver.MaxToken + 1 },
		"once":     func(c *jetstream.StreamConfig) { c.DiscardNewPerSubject = true },
		"old":      func(c *jetstream.StreamConfig) { c.Discard = jetstream.DiscardOld },
		"async":    func(c *jetstream.StreamConfig) { c.PersistMode = jetstream.AsyncPersistMode },
		"sources":  func(c *jetstream.StreamConfig) { c.Sources = []*jetstream.StreamSource{{Name: "other"}} },
		"moved":    func(c *jetstream.StreamConfig) { c.SubjectTransform = moved },
	} {
		config := stream.CachedInfo().Config
		config.Name, config.Subjects = "KV_"+name, []string{"$KV." + name + ".>"}
		spoil(&config)
		require.NoError(t, peer.ErrOf(js.CreateStream(t.Context(), config)), name)
		b := bucket(name)
		peer.Fails(t, b, request("a", 1), driver.ErrRefused)
		peer.Fails(t, b, request("a", 1), driver.ErrRefused)
		require.ErrorIs(t, CreateBucket(t.Context(), js, Options{Bucket: name}, 1), driver.ErrRefused, name)
	}
	peer.Fails(t, bucket("missing"), request("a", 1), driver.ErrRefused)
	require.NoError(t, js.DeleteStream(t.Context(), b.stream()))
	time.AfterFunc(peer.Soon/50, func() { _ = CreateBucket(t.Context(), js, Options{Bucket: "by-hand"}, 1) })
	require.NoError(t, peer.ErrOf(b.TryAcquire(t.Context(), request("a", 1))), "a claim waits for the bucket's next leader")
	require.ErrorIs(t, peer.ErrOf(New(js, Options{Bucket: "a.b"})), lockport.ErrInvalidOption)
	for version, ok := range map[string]bool{"2.10.29": false, "2.11.9": false, "2.11.10": true, "2.12.0-RC.1": false, "2.12.1": true, "3.0.0": true, "": true} {
		require.Equal(t, ok, endsClaims(version), version)
	}
}

// A stream whose queue is full, or whose account's or server's storage is, drops a request, but takes later ones. Without trust in the server there is no later one.
func TestBusyStream(t *testing.T) {
	for _, sent := range []bool{false, true} {
		require.ErrorIs(t, classify(t.Context(), &jetstream.APIError{Code: 429, ErrorCode: 10167}, sent), driver.ErrUnavailable)
		require.ErrorIs(t, classify(t.Context(), &jetstream.APIError{Code: 400, ErrorCode: 10002}, sent), driver.ErrUnavailable)
		require.ErrorIs(t, classify(t.Context(), &jetstream.APIError{Code: 503, ErrorCode: 10023}, sent), driver.ErrUnavailable)
		require.ErrorIs(t, classify(t.Context(), unreachable(x509.UnknownAuthorityError{}), sent), driver.ErrRefused)
	}
}

// No error shows the password of a wrong URL, and a comma in a password does not split it. The deadline of the first request bounds that request
// alone: reconnects have the usual time.
func TestURLs(t *testing.T) {
	peer.BadURLs(t, map[string]string{"nats://u:secret@h1:42x2,h2:4222": "bad address", "nats://u:secret@h1?addr=h2:x": "bad address",
		"nats://u:secret@h1?addr=a:b:c": "bad address", "nats://u:secret@h1/x": "set the bucket", "nats://u:secret@h1?ca=x": "needs tls=true",
		"nats://h1?creds=/no/file": "no such file", "nats://h1?creds=go.mod": "no nkey seed found"})
	require.Equal(t, []string{"quorum"}, peer.Notices(t, one.Need(t).URL()))
	peer.Refuses(t, one.Need(t).URL()+"?bucket=absent", driver.ErrRefused, "the bucket absent")
	peer.Refuses(t, one.Need(t).URL()+"?tls=true", driver.ErrUnavailable, natsgo.ErrSecureConnWanted.Error())
	b := peer.Opened(t, strings.Replace(one.Need(t).URL(), "nats://", "nats://u:secret%2Ctoo@", 1)) // a server without users accepts any
	t.Cleanup(func() { _ = b.Close() })
	peer.Until(t, func() bool {
		return peer.ErrOf(b.(*Backend).Inspect(peer.Within(t, connectTimeout-time.Millisecond), "x")) == nil
	})
	o := b.(*Backend).js.Conn().Opts
	require.Equal(t, []any{connectTimeout, -1, true, -1}, []any{o.Timeout, o.MaxReconnect, o.IgnoreAuthErrorAbort, o.ReconnectBufSize})
}

// A server only reports that a right is missing, and sends no answer.
func TestMissingRight(t *testing.T) {
	server := peer.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer server.Close()
	go func() {
		conn, _ := server.Accept()
		fmt.Fprint(conn, "INFO {\"headers\":true}\r\n")
		for lines := bufio.NewScanner(conn); lines.Scan(); {
			if lines.Text() == "PING" {
				fmt.Fprint(conn, "PONG\r\n-ERR 'Permissions Violation for Publish to \"$JS.API\"'\r\n")
			}
		}
	}()
	b := peer.Opened(t, "nats://u:secret@"+server.Addr().String()).(*Backend)
	defer b.Close()
	peer.SaysOneLine(t, peer.ErrOf(b.Check(peer.Within(t, time.Second))), driver.ErrUnavailable, `Publish to "$JS.API"`)
}

// A list has each lock once, and every lock that is held throughout, even if claims are renewed meanwhile.
func TestListOfABusyBucket(t *testing.T) {
	b := backend(t, connect(t, one.Need(t).URL()))
	var renewing sync.WaitGroup
	t.Cleanup(renewing.Wait) // t's context ends before
	const held = 40
	for i := range held {
		l := peer.Takes(t, b, request(fmt.Sprint("busy/", i), 1)).(*lease)
		renewing.Go(func() {
			for t.Context().Err() == nil {
				_, _ = l.Renew(t.Context())
			}
		})
	}
	for range 5 {
		all := peer.Lists(t, b, "busy/")
		names := make(map[string]bool)
		for _, st := range all {
			names[st.Name] = true
		}
		require.Equal(t, []int{held, held}, []int{len(all), len(names)}, "locks, and distinct names")
	}
}

// A watch that its caller leaves leaves no goroutine and no consumer, even if more changes are under way than nats.go buffers.
func TestAWatchThatIsLeft(t *testing.T) {
	b := backend(t, connect(t, one.Need(t).URL()))
	for i := range 600 {
		peer.Takes(t, b, request(fmt.Sprint(i), 1))
	}
	require.NoError(t, b.watch(t.Context(), ">", func(jetstream.KeyValueEntry) bool { return false }))
	woken := make(chan struct{}, 600)
	stop := b.Notify(request("0", 2), func() { woken <- struct{}{} })
	peer.Eventually(t, woken)
	stop()
	peer.Until(t, func() bool {
		var stacks strings.Builder
		require.NoError(t, pprof.Lookup("goroutine").WriteTo(&stacks, 1))
		return !strings.Contains(stacks.String(), "WatchFiltered") && peer.Must(b.state(t.Context()))(t).Consumers == 0
	})
}
