package servers

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func base64Of(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

// try calls until that succeeds: while the leader changes, an etcd refuses.
func try(t *testing.T, call func() error) {
	t.Helper()
	require.NoError(t, poll(timeout(t), call))
}

func put(t *testing.T, e *Etcd, key, value string) {
	t.Helper()
	try(t, func() error {
		return e.gateway.call(t.Context(), "kv/put", object{"key": base64Of(key), "value": base64Of(value)}, nil)
	})
}

func get(ctx context.Context, e *Etcd, key string) (string, error) {
	var reply struct {
		Kvs []struct{ Value []byte }
	}
	err := e.gateway.call(ctx, "kv/range", object{"key": base64Of(key)}, &reply)
	if err != nil || len(reply.Kvs) == 0 {
		return "", err
	}
	return string(reply.Kvs[0].Value), nil
}

func requireValue(t *testing.T, e *Etcd, key, value string) {
	t.Helper()
	var got string
	try(t, func() (err error) {
		got, err = get(t.Context(), e, key)
		return err
	})
	require.Equal(t, value, got)
}

// bothEtcds runs f for the installed etcd and the current one.
func bothEtcds(t *testing.T, f func(t *testing.T, o EtcdOptions)) {
	for name, o := range map[string]EtcdOptions{"installed": {}, "current": {Current: true}} {
		t.Run(name, func(t *testing.T) { f(t, o) })
	}
}

func TestEtcdKeepsItsData(t *testing.T) {
	bothEtcds(t, func(t *testing.T, o EtcdOptions) {
		e := NeedEtcd(t, o)
		require.Equal(t, "etcd://"+e.Addr(), e.URL())
		put(t, e, "k", "v")
		for _, end := range []func() error{e.Stop, e.Kill, func() error { return nil }} {
			require.NoError(t, end())
			require.NoError(t, e.Restart(t.Context()))
			requireValue(t, e, "k", "v")
		}
		require.NoError(t, e.Kill())
		_, err := e.Version(t.Context())
		require.Error(t, err)
	})
}

func TestEtcdVersions(t *testing.T) {
	bothEtcds(t, func(t *testing.T, o EtcdOptions) {
		version, err := NeedEtcd(t, o).Version(t.Context())
		require.NoError(t, err)
		require.Regexp(t, `^3\.\d+\.\d+$`, version)
		if o.Current {
			require.Regexp(t, `^3\.7\.`, version)
		}
	})
}

func TestEtcdFrozenIsSilent(t *testing.T) {
	e := NeedEtcd(t, EtcdOptions{})
	put(t, e, "k", "v")
	require.NoError(t, e.Freeze())
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := get(ctx, e, "k")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, e.Thaw())
	requireValue(t, e, "k", "v")
	require.NoError(t, e.Freeze())
	require.NoError(t, e.Restart(t.Context()))
	requireValue(t, e, "k", "v")
}

// TestEtcdSettings asks for a lease that is too short, and gets the shortest there is.
func TestEtcdSettings(t *testing.T) {
	for tick, shortest := range map[time.Duration]string{0: "1", 100 * time.Millisecond: "2"} {
		e := NeedEtcd(t, EtcdOptions{Tick: tick, Flags: []string{"--max-txn-ops=1"}})
		var lease struct{ TTL string }
		require.NoError(t, e.gateway.call(t.Context(), "lease/grant", object{"TTL": 1}, &lease))
		require.Equal(t, shortest, lease.TTL)
		request := object{"request_range": object{"key": base64Of("k")}}
		err := e.gateway.call(t.Context(), "kv/txn", object{"success": []object{request, request}}, nil)
		require.ErrorContains(t, err, "too many operations")
	}
}

func TestEtcdReadsNoVariables(t *testing.T) {
	t.Setenv("ETCD_NAME", "other")
	t.Setenv("ETCD_LISTEN_CLIENT_URLS", "http://127.0.0.1:1")
	put(t, NeedEtcd(t, EtcdOptions{}), "k", "v")
}

func TestEtcdPassword(t *testing.T) {
	const password = `p@ss "wörd" \`
	bothEtcds(t, func(t *testing.T, o EtcdOptions) {
		o.RootPassword = password
		e := NeedEtcd(t, o)
		require.Equal(t, "etcd://root:p%40ss%20%22w%C3%B6rd%22%20%5C@"+e.Addr(), e.URL())
		put(t, e, "k", "v")
		require.NoError(t, e.Restart(t.Context()))
		requireValue(t, e, "k", "v")

		stranger := e.gateway
		stranger.password = ""
		require.NoError(t, stranger.enableAuth(t.Context(), password), "as after a try of which the answer was lost")
		for _, wrong := range []string{"", "secret"} {
			stranger.password = wrong
			err := stranger.call(t.Context(), "kv/range", object{"key": base64Of("k")}, nil)
			require.ErrorContains(t, err, "etcdserver: ")
			require.NotContains(t, err.Error(), "secret")
		}
	})
}

func TestEtcdTLS(t *testing.T) {
	bothEtcds(t, func(t *testing.T, o EtcdOptions) {
		o.TLS, o.RootPassword = true, "secret"
		e := NeedEtcd(t, o)
		require.Equal(t, "etcds://root:secret@"+e.Addr(), e.URL())
		put(t, e, "k", "v")

		pem, err := os.ReadFile(e.CAFile())
		require.NoError(t, err)
		roots := x509.NewCertPool()
		require.True(t, roots.AppendCertsFromPEM(pem))
		client := e.gateway
		client.tls = &tls.Config{RootCAs: roots}
		_, err = client.status(t.Context())
		require.NoError(t, err)
		client.tls = &tls.Config{}
		_, err = client.status(t.Context())
		var unknown x509.UnknownAuthorityError
		require.ErrorAs(t, err, &unknown)
		client.tls = nil
		_, err = client.status(t.Context())
		require.Error(t, err)
	})
	plain := NeedEtcd(t, EtcdOptions{})
	require.Nil(t, plain.TLSConfig())
	require.Empty(t, plain.CAFile())
}

// TestEtcdPortTaken meets another etcd on either port, which must not be taken for the new one.
func TestEtcdPortTaken(t *testing.T) {
	other := NeedEtcd(t, EtcdOptions{})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = listener.Close() }()
	taken := []int{other.port, other.port + etcdPeer, listener.Addr().(*net.TCPAddr).Port - etcdPeer}
	tried := 0
	e, err := startEtcd(t.Context(), EtcdOptions{}, etcdRole{name: etcdName()}, func(offset int) (int, error) {
		if tried++; tried <= len(taken) {
			return taken[tried-1], nil
		}
		return freePort(offset)
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Close()) }()
	require.NotContains(t, taken, e.port)
	put(t, e, "k", "v")
	requireValue(t, other, "k", "")

	require.NoError(t, e.Stop())
	thief, err := net.Listen("tcp", e.Addr())
	require.NoError(t, err)
	require.ErrorIs(t, e.Restart(t.Context()), errPortTaken)
	require.NoError(t, thief.Close())
	require.NoError(t, e.Restart(t.Context()))
	requireValue(t, e, "k", "v")
}

func TestEtcdIsNotMistaken(t *testing.T) {
	e, other := NeedEtcd(t, EtcdOptions{}), NeedEtcd(t, EtcdOptions{})
	require.NoError(t, e.ready(t.Context(), e.Addr(), 0))
	require.ErrorContains(t, e.ready(t.Context(), other.Addr(), 0), "not ours")
	fresh := &Etcd{name: etcdName()}
	require.ErrorContains(t, fresh.ready(t.Context(), other.Addr(), 0), "not ours")
}

func TestEtcdLeavesNothing(t *testing.T) {
	NeedEtcd(t, EtcdOptions{})
	TempDir(t)
	_, err := StartEtcd(t.Context(), EtcdOptions{Flags: []string{"--no-such-flag"}})
	require.ErrorContains(t, err, "ended at its start")
	require.ErrorContains(t, err, "no-such-flag")
	wantEmpty(t, os.TempDir())

	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("changed my mind")
	cancel(cause)
	_, err = StartEtcd(ctx, EtcdOptions{})
	require.ErrorIs(t, err, cause)
	wantEmpty(t, os.TempDir())

	e, err := StartEtcd(t.Context(), EtcdOptions{})
	require.NoError(t, err)
	require.NoError(t, e.Close())
	require.False(t, e.proc.alive())
	wantEmpty(t, os.TempDir())
}

func TestFindEtcdctl(t *testing.T) {
	NeedEtcd(t, EtcdOptions{})
	path, err := FindEtcdctl()
	NeedInstalled(t, err, "etcd")
	require.FileExists(t, path)
}

// TestEtcdThatRefusesThePassword has servers that start and must be cleaned up all the same.
func TestEtcdThatRefusesThePassword(t *testing.T) {
	o := EtcdOptions{Current: true}
	NeedEtcd(t, o)
	TempDir(t)
	o.RootPassword = strings.Repeat("secret", 20) // bcrypt takes 72 bytes
	for _, start := range []func() error{
		func() error { _, err := StartEtcd(t.Context(), o); return err },
		func() error { _, err := StartEtcdCluster(t.Context(), o); return err },
	} {
		err := start()
		require.ErrorContains(t, err, "auth/user/add: ")
		require.NotContains(t, err.Error(), "secret")
		wantEmpty(t, os.TempDir())
	}
}

// TestCurrentEtcdThatCannotBeBuilt is as if go were missing.
func TestCurrentEtcdThatCannotBeBuilt(t *testing.T) {
	built := <-etcdBuild // forget it for now
	defer func() { <-etcdBuild; etcdBuild <- built }()
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, errors.New("busy"))
	defer cancel()
	_, err := buildEtcd(ctx)
	require.ErrorContains(t, err, "waiting for a current etcd to be built: busy")

	etcdBuild <- ""
	t.Setenv("PATH", t.TempDir())
	_, err = buildEtcd(t.Context())
	var missing *NotInstalled
	require.ErrorAs(t, err, &missing)
	require.ErrorContains(t, err, "cannot build a current etcd: ")
	require.ErrorContains(t, err, strconv.Quote("go"))
}

func TestEtcdWipeData(t *testing.T) {
	t.Parallel()
	e := NeedEtcd(t, EtcdOptions{})
	put(t, e, "k", "v")
	require.ErrorContains(t, e.WipeData(), "stop the etcd")
	require.NoError(t, e.Kill())
	require.NoError(t, e.Restart(t.Context()))
	requireValue(t, e, "k", "v")
	require.NoError(t, e.Kill())
	require.NoError(t, e.WipeData())
	require.NoError(t, e.Restart(t.Context()))
	got, err := get(t.Context(), e, "k")
	require.NoError(t, err)
	require.Empty(t, got)
}
