package certmagiclock_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/lockport/lockport"
	certmagiclock "github.com/lockport/lockport/adapters/certmagic"
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

var (
	_ certmagic.Storage          = (*certmagiclock.Storage)(nil)
	_ certmagic.TryLocker        = (*certmagiclock.Storage)(nil)
	_ certmagic.LockLeaseRenewer = (*certmagiclock.Storage)(nil)
)

func TestMain(m *testing.M) {
	machines.Main(func(ctx context.Context, c config) (worker.Worker[string, struct{}], error) {
		locks, err := open(ctx, c.Locks)
		return &machine{c, locks}, err
	})
	os.Exit(m.Run())
}

func open(ctx context.Context, url string, opts ...lockport.Option) (*lockport.Client, error) {
	return lockport.Open(ctx, url, append(opts, lockport.TTL(ttl), lockport.Logger(slog.New(slog.DiscardHandler)))...)
}

// machine is a process that obtains certificates on command.
type machine struct {
	config
	locks *lockport.Client
}

type config struct{ Locks, Folder, Authority string }

var machines = worker.Kind[config, string, struct{}]{Variable: "LOCKPORT_TEST_CERTMAGIC"}

func (m *machine) Do(name string) (struct{}, error) {
	var c *certmagic.Config
	cache := certmagic.NewCache(certmagic.CacheOptions{
		GetConfigForCert: func(certmagic.Certificate) (*certmagic.Config, error) { return c, nil },
		Logger:           zap.NewNop(),
	})
	defer cache.Stop()
	c = certmagic.New(cache, certmagic.Config{
		Storage: certmagiclock.New(&certmagic.FileStorage{Path: m.Folder}, m.locks),
		Issuers: []certmagic.Issuer{issuer(m.Authority)},
		Logger:  zap.NewNop(),
	})
	return struct{}{}, c.ObtainCertAsync(context.Background(), name) // also calls RenewLockLease
}

func (m *machine) Close() { _ = m.locks.Close() }

// issuer requests certificates from the authority at a URL.
type issuer string

func (i issuer) IssuerKey() string { return "test" }

func (i issuer) Issue(ctx context.Context, request *x509.CertificateRequest) (*certmagic.IssuedCertificate, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, string(i), bytes.NewReader(request.Raw))
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	certificate, err := io.ReadAll(response.Body)
	return &certmagic.IssuedCertificate{Certificate: certificate}, err
}

// authority answers a request when the test lets it. certmagic stores the answer unchanged.
type authority struct {
	arrived, sign chan struct{}
	requests      atomic.Int32
}

func (a *authority) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.requests.Add(1)
	_, _ = io.Copy(io.Discard, r.Body) // else the end of the connection is not detected
	a.arrived <- struct{}{}
	select {
	case <-a.sign:
		_, _ = io.WriteString(w, "a certificate")
	case <-r.Context().Done():
	}
}

// Three machines want one certificate. One asks the authority; when it is killed, another asks; the third finds the certificate.
func TestOneObtains(t *testing.T) {
	url := servers.SharedRedis(t).URL()
	a := &authority{arrived: make(chan struct{}), sign: make(chan struct{})}
	server := httptest.NewServer(a)
	defer server.Close()
	all, err := machines.StartAll(t.Context(), config{url, t.TempDir(), server.URL}, 3)
	require.NoError(t, err)
	defer all.Kill()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()

	outcomes := map[int]func(context.Context) (struct{}, error){}
	for _, m := range all {
		outcomes[m.Pid()] = m.Send(site)
	}
	peer.Eventually(t, a.arrived)
	holder := waitFor(t, ctx, url, 2)
	for _, m := range all {
		if m.Pid() == holder {
			m.Kill()
			delete(outcomes, holder)
		}
	}
	peer.Eventually(t, a.arrived)
	waitFor(t, ctx, url, 1)
	a.sign <- struct{}{}
	for _, outcome := range outcomes {
		_, err := outcome(ctx)
		require.NoError(t, err)
	}
	require.EqualValues(t, 2, a.requests.Load())
}

// waitFor waits until the given number of processes wait for the lock, and returns the holder's id.
func waitFor(t *testing.T, ctx context.Context, url string, waiters int) (pid int) {
	t.Helper()
	locks, err := open(ctx, url)
	require.NoError(t, err)
	defer locks.Close()
	require.NoError(t, servers.Poll(ctx, func(ctx context.Context) error {
		status, err := locks.Inspect(ctx, "issue_cert_"+site)
		if err == nil && (!status.Held || status.Waiters != waiters) {
			err = errors.New("others wait")
		}
		pid = status.PID
		return err
	}))
	return pid
}

func TestStorage(t *testing.T) {
	const name = "storage_clean"
	url := servers.SharedRedis(t).URL()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	told := make(chan struct{}, 1) // of a loss; until then the lock counts as held
	machine := func() (*certmagiclock.Storage, *lockport.Client) {
		locks, err := open(ctx, url, lockport.Observe(lockport.Hooks{Lost: func(lockport.HoldEvent) { told <- struct{}{} }}))
		require.NoError(t, err)
		t.Cleanup(func() { _ = locks.Close() })
		return certmagiclock.New(&certmagic.FileStorage{Path: t.TempDir()}, locks), locks
	}
	ours, ourLocks := machine()
	theirs, theirLocks := machine()
	try := func(s *certmagiclock.Storage, wanted bool) {
		t.Helper()
		ok, err := s.TryLock(ctx, name)
		require.NoError(t, err)
		require.Equal(t, wanted, ok)
	}
	lose := func(locks *lockport.Client) {
		t.Helper()
		status, err := locks.Inspect(ctx, name)
		require.NoError(t, err)
		require.NoError(t, locks.Break(ctx, name, status.Owner))
		peer.Eventually(t, told)
	}

	require.Error(t, ours.Unlock(ctx, name), "without Lock")
	require.Error(t, ours.RenewLockLease(ctx, name, time.Hour), "without Lock")

	require.NoError(t, ours.Lock(ctx, name))
	try(ours, false)
	try(theirs, false)
	soon, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	err := theirs.Lock(soon, name)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, err, lockport.ErrHeld)
	require.NoError(t, ours.RenewLockLease(ctx, name, time.Hour))

	// Lost, and another client has it. That client waits, since its abandoned place in the queue may have outlasted the lock.
	lose(ourLocks)
	require.NoError(t, theirs.Lock(ctx, name))
	err = ours.RenewLockLease(ctx, name, time.Hour)
	require.ErrorIs(t, err, lockport.ErrLost)
	require.ErrorIs(t, err, lockport.ErrHeld)
	require.ErrorIs(t, ours.Unlock(ctx, name), lockport.ErrLost)
	try(ours, false)

	// Lost, and free.
	lose(theirLocks)
	require.NoError(t, theirs.RenewLockLease(ctx, name, time.Hour))
	try(ours, false)
	require.NoError(t, theirs.Unlock(ctx, name))

	// Lost while its job works on: another job of the process waits for that one's end, since Unlock does not tell which job calls.
	require.NoError(t, ours.Lock(ctx, name))
	lose(ourLocks)
	soon, cancel = context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	err = ours.Lock(soon, name)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, err, lockport.ErrHeld)
	try(ours, false)
	next := make(chan error)
	go func() { next <- ours.Lock(ctx, name) }()
	require.ErrorIs(t, ours.Unlock(ctx, name), lockport.ErrLost)
	require.NoError(t, <-next)
	try(theirs, false)
	require.NoError(t, ours.RenewLockLease(ctx, name, time.Hour))
	require.NoError(t, ours.Unlock(ctx, name))
	try(theirs, true)
	require.NoError(t, theirs.Unlock(ctx, name))

	// Unlocked while it acquires its lost lock again, as by certmagic.CleanUpOwnLocks: nobody keeps the lock.
	var s *certmagiclock.Storage
	s = certmagiclock.New(&certmagic.FileStorage{Path: t.TempDir()}, unlocking{ourLocks, func() { _ = s.Unlock(ctx, name) }})
	require.NoError(t, s.Lock(ctx, name))
	lose(ourLocks)
	require.ErrorContains(t, s.RenewLockLease(ctx, name, time.Hour), "is not locked")
	try(theirs, true)
	require.NoError(t, theirs.Unlock(ctx, name))
}

// unlocking calls unlock before each attempt.
type unlocking struct {
	lockport.Locker
	unlock func()
}

func (u unlocking) TryAcquire(ctx context.Context, name string, opts ...lockport.AcquireOption) (*lockport.Lock, error) {
	u.unlock()
	return u.Locker.TryAcquire(ctx, name, opts...)
}
