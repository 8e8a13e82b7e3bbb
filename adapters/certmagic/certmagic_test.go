package certmagiclock_test

import (
	"context"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/lockport/lockport"
	certmagiclock "github.com/lockport/lockport/adapters/certmagic"
	"github.com/lockport/lockport/backend/memory"
	_ "github.com/lockport/lockport/backend/redis"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/lab/servers"
	"github.com/lockport/lockport/internal/lab/worker"
)

const (
	ttl      = 2 * time.Second
	patience = 10 * time.Second // less than the default TTL
	site     = "example.com"
)

var _ certmagic.TryLocker = (*certmagiclock.Storage)(nil)
var _ certmagic.LockLeaseRenewer = (*certmagiclock.Storage)(nil)

func TestMain(m *testing.M) {
	machines.Main(func(ctx context.Context, c config) (func(string) (struct{}, error), func(), error) {
		locks, err := open(ctx, c.Locks)
		return func(name string) (struct{}, error) { return struct{}{}, obtain(c, locks, name) }, func() { _ = locks.Close() }, err
	})
	m.Run()
}

func open(ctx context.Context, url string) (*lockport.Client, error) {
	return lockport.Open(ctx, url, lockport.TTL(ttl), lockport.Logger(nil))
}

type config struct{ Locks, Folder, Requests string }

var machines = worker.Kind[config, string, struct{}]{Variable: "LOCKPORT_TEST_CERTMAGIC"}

// obtain obtains the certificate of name.
func obtain(m config, locks *lockport.Client, name string) error {
	var c *certmagic.Config
	cache := certmagic.NewCache(certmagic.CacheOptions{
		GetConfigForCert: func(certmagic.Certificate) (*certmagic.Config, error) { return c, nil },
		Logger:           zap.NewNop(),
	})
	defer cache.Stop()
	c = certmagic.New(cache, certmagic.Config{
		Storage: certmagiclock.New(&certmagic.FileStorage{Path: m.Folder}, locks),
		Issuers: []certmagic.Issuer{issuer(m.Requests)},
		Logger:  zap.NewNop(),
	})
	return c.ObtainCertAsync(context.Background(), name) // also calls RenewLockLease
}

// issuer is an authority that keeps each request as a file in its folder, and signs once the file "sign" is there.
type issuer string

func (i issuer) IssuerKey() string { return "test" }

// Issue implements certmagic.Issuer. certmagic stores the certificate unchanged.
func (i issuer) Issue(ctx context.Context, _ *x509.CertificateRequest) (*certmagic.IssuedCertificate, error) {
	if _, err := os.CreateTemp(string(i), "request"); err != nil {
		return nil, err
	}
	err := servers.Poll(ctx, func(context.Context) error { _, err := os.Stat(string(i) + "/sign"); return err })
	return &certmagic.IssuedCertificate{Certificate: []byte("a certificate")}, err
}

// Three machines want one certificate. One asks the authority; when it is killed, another asks; the third finds the certificate.
func TestOneObtains(t *testing.T) {
	url, requests := servers.SharedRedis(t).URL(), t.TempDir()
	requested := func(n int) {
		t.Helper()
		all := func() bool { files, _ := filepath.Glob(requests + "/request*"); return len(files) == n }
		require.Eventually(t, all, peer.Soon, time.Millisecond, "want %d requests", n)
	}
	all := peer.Must(machines.StartAll(t.Context(), config{url, t.TempDir(), requests}, 3))(t)
	defer all.Kill()
	ctx := peer.Within(t, patience)

	locks := peer.Must(open(ctx, url))(t)
	defer locks.Close()
	holderBefore := func(waiters int) (pid int) {
		t.Helper()
		require.Eventually(t, func() bool {
			status, err := locks.Inspect(ctx, "issue_cert_"+site)
			pid = status.PID
			return err == nil && status.Held && status.Waiters == waiters
		}, patience, time.Millisecond, "want %d processes that wait", waiters)
		return pid
	}

	outcomes, kill := map[int]func(context.Context) (struct{}, error){}, map[int]func(){}
	for _, m := range all {
		outcomes[m.Pid()], kill[m.Pid()] = m.Send(site), m.Kill
	}
	requested(1)
	holder := holderBefore(2)
	kill[holder]()
	delete(outcomes, holder)
	requested(2)
	holderBefore(1)
	require.NoError(t, os.WriteFile(requests+"/sign", nil, 0o600))
	for _, outcome := range outcomes {
		require.NoError(t, peer.ErrOf(outcome(ctx)))
	}
	requested(2)
}

func TestStorage(t *testing.T) {
	const name = "storage_clean"
	ctx := peer.Within(t, patience)
	server, before := memory.NewServer(), func() {} // before each attempt
	hooks := lockport.Hooks{AcquireStart: func(ctx context.Context, _ lockport.AcquireEvent) context.Context { before(); return ctx }}
	machine := func() *certmagiclock.Storage {
		locks := peer.Client(t, memory.NewBackend(memory.Options{Server: server}), lockport.Observe(hooks))
		return certmagiclock.New(&certmagic.FileStorage{Path: t.TempDir()}, locks)
	}
	ours, theirs := machine(), machine()
	require.Equal(t, fmt.Sprint(ours.Storage), fmt.Sprint(ours), "certmagic logs it, and the wrapped one may hide its password")
	require.NotContains(t, fmt.Sprint(certmagiclock.New(struct{ certmagic.Storage }{ours}, nil)), fmt.Sprint(ours), "a Storage that has no String")
	try := func(s *certmagiclock.Storage, wanted bool) {
		t.Helper()
		require.Equal(t, wanted, peer.Must(s.TryLock(ctx, name))(t))
	}
	blocked := func(s *certmagiclock.Storage) {
		t.Helper()
		err := s.Lock(peer.Within(t, 100*time.Millisecond), name)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, lockport.ErrHeld)
	}

	require.Error(t, ours.Unlock(ctx, name), "without Lock")
	require.Error(t, ours.RenewLockLease(ctx, name, time.Hour), "without Lock")

	before = func() { panic("hook") } // certmagic goes on after a panic of a job
	require.PanicsWithValue(t, "hook", func() { _ = ours.Lock(ctx, name) })
	before = func() {}
	require.NoError(t, ours.Lock(ctx, name))
	try(ours, false)
	try(theirs, false)
	blocked(theirs)
	require.NoError(t, ours.RenewLockLease(ctx, name, time.Hour))

	// Lost, and another client has it.
	server.Lose(name, nil)
	require.NoError(t, theirs.Lock(ctx, name))
	err := ours.RenewLockLease(ctx, name, time.Hour)
	require.ErrorIs(t, err, lockport.ErrLost)
	require.ErrorIs(t, err, lockport.ErrHeld)
	require.ErrorIs(t, ours.Unlock(ctx, name), lockport.ErrLost)
	try(ours, false)

	// Lost, and free.
	server.Lose(name, nil)
	require.NoError(t, theirs.RenewLockLease(ctx, name, time.Hour))
	try(ours, false)
	require.NoError(t, theirs.Unlock(ctx, name))

	// Lost while its job works on: another job of the process waits for that one's end, since Unlock does not tell which job calls.
	require.NoError(t, ours.Lock(ctx, name))
	server.Lose(name, nil)
	blocked(ours)
	try(ours, false)
	next := make(chan error, 1)
	go func() { next <- ours.Lock(ctx, name) }()
	require.Never(t, func() bool { return len(next) > 0 }, 100*time.Millisecond, 5*time.Millisecond, "it must wait")
	require.ErrorIs(t, ours.Unlock(ctx, name), lockport.ErrLost)
	require.NoError(t, <-next)
	try(theirs, false)
	require.NoError(t, ours.RenewLockLease(ctx, name, time.Hour))
	require.NoError(t, ours.Unlock(ctx, name))
	try(theirs, true)
	require.NoError(t, theirs.Unlock(ctx, name))

	// Unlocked while it acquires its lost lock again, as by certmagic.CleanUpOwnLocks: nobody keeps the lock.
	require.NoError(t, ours.Lock(ctx, name))
	server.Lose(name, nil)
	before = func() { _ = ours.Unlock(ctx, name) }
	require.ErrorContains(t, ours.RenewLockLease(ctx, name, time.Hour), "is not locked")
	try(theirs, true)
	require.NoError(t, theirs.Unlock(ctx, name))
}
