package mysql

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/internal/lab/servers"
	"github.com/lockport/lockport/internal/session"
)

// TestConnWithTLS: what goes over the socket is the client library's own, and so is every request.
func TestConnWithTLS(t *testing.T) {
	cert, key := certificate(t)
	m := servers.NeedMariaDB(t, servers.MariaDBOptions{Settings: map[string]string{"ssl-cert": cert, "ssl-key": key}})
	plain := dialFor(t, serverFor(t, m.DSN(), Options{}))
	require.True(t, plain.direct)
	for _, tokens := range []bool{true, false} {
		s := serverFor(t, m.DSN()+"?tls=skip-verify", Options{NoTokens: !tokens, TTL: time.Second})
		a, b := dialFor(t, s), dialFor(t, s)
		require.False(t, a.direct)
		held, free := newKey(), newKey()
		require.True(t, a.one(session.Try, held).OK)
		ops := []*session.Op{{Kind: session.Try, Key: held}, {Kind: session.Ping}, {Kind: session.Try, Key: free}}
		require.NoError(t, b.do(ops...))
		require.False(t, ops[0].OK)
		require.True(t, ops[2].OK)
		require.Equal(t, tokens, ops[2].Token > 0)
		plain.finds(held)

		// Who waits stays until he has it, or his context ends.
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		done := make(chan error, 1)
		op := &session.Op{Key: held}
		b.Wait(ctx, op, func(err error) { done <- err })
		require.Error(t, ctx.Err())
		require.Empty(t, done)
		require.True(t, a.one(session.Free, held).OK)
		require.NoError(t, b.result(done))
		require.True(t, op.OK)
		b.Close()
		b.ends()
	}
}

// endless is a connection without deadlines, as those through a tunnel may be.
type endless struct{ net.Conn }

func (endless) SetDeadline(time.Time) error     { return errors.ErrUnsupported }
func (endless) SetReadDeadline(time.Time) error { return errors.ErrUnsupported }

// TestConnWithoutDeadlines: a caller who reads himself could not be sent away, so the client library does.
func TestConnWithoutDeadlines(t *testing.T) {
	m := servers.SharedMariaDB(t)
	cfg := configFor(t, m.DSN())
	cfg.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dialPlain(ctx, network, address)
		return endless{c}, err
	}
	c, err := New(cfg, Options{NoTokens: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	name := newName()
	other, err := New(configFor(t, m.DSN()), Options{NoTokens: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, other.Close()) }()
	l, err := other.Acquire(t.Context(), name)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = c.Acquire(ctx, name)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, l.Release(t.Context()))
	l, err = c.Acquire(t.Context(), name)
	require.NoError(t, err)
	require.NoError(t, l.Release(t.Context()))
}

// certificate makes one that signs itself.
func certificate(t *testing.T) (cert, key string) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	about := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	public, err := x509.CreateCertificate(rand.Reader, about, about, private.Public(), private)
	require.NoError(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	folder := servers.TempDir(t)
	write := func(name, kind string, p []byte) string { // the server, which may run as somebody else, reads it
		path := filepath.Join(folder, name)
		require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: p}), 0o644))
		return path
	}
	return write("cert.pem", "CERTIFICATE", public), write("key.pem", "PRIVATE KEY", secret)
}

// TestAnswersThatNobodyAskedFor: the session is not to be trusted any more.
func TestAnswersThatNobodyAskedFor(t *testing.T) {
	m := servers.SharedMariaDB(t)
	a := dialFor(t, serverFor(t, m.DSN(), Options{}))
	a.wire.line.Lock()
	a.wire.ahead = []byte("more")
	a.wire.line.Unlock()
	require.ErrorIs(t, a.do(&session.Op{Kind: session.Ping}), errNoReply)
	a.ends()
}

// TestTriesThatFailTogether: what the server has taken before it said that it fails is given back.
func TestTriesThatFailTogether(t *testing.T) {
	m := servers.SharedMariaDB(t)
	s := serverFor(t, m.DSN(), Options{NoTokens: true, ExactKeys: true})
	a, b := dialFor(t, s), dialFor(t, s)
	taken := newKey()
	bad := session.Key("x',no_such_function('") // no layout makes such a key
	ops := []*session.Op{{Kind: session.Try, Key: taken}, {Kind: session.Try, Key: bad}}
	err := a.do(ops...)
	if err == nil {
		require.Error(t, ops[0].Err)
		require.False(t, ops[0].OK)
	} else {
		a.ends()
	}
	require.Eventually(t, func() bool { return b.one(session.Try, taken).OK }, within, time.Millisecond)
}
