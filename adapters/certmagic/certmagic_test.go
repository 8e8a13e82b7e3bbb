package certmagiclock_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"

	"github.com/lockport/lockport"
	certmagiclock "github.com/lockport/lockport/adapters/certmagic"
	_ "github.com/lockport/lockport/backend/redis"
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

// machine is a process that obtains the certificates that it is told to.
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
	return struct{}{}, c.ObtainCertAsync(context.Background(), name) // renews its lock's lease
}

func (m *machine) Close() { _ = m.locks.Close() }

// issuer asks the authority at a URL.
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

// authority signs what it is asked to, when the test lets it.
type authority struct {
	arrived, sign chan struct{}
	requests      atomic.Int32
}

func (a *authority) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.requests.Add(1)
	request, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	a.arrived <- struct{}{}
	select {
	case <-a.sign:
	case <-r.Context().Done():
		return
	}
	certificate, err := certify(request)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	_ = pem.Encode(w, &pem.Block{Type: "CERTIFICATE", Bytes: certificate})
}

func certify(request []byte) ([]byte, error) {
	csr, err := x509.ParseCertificateRequest(request)
	if err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	certificate := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: csr.DNSNames, NotAfter: time.Now().Add(time.Hour)}
	return x509.CreateCertificate(rand.Reader, certificate, certificate, csr.PublicKey, key)
}

// Three machines want one certificate. The authority is asked by one; when that is killed, by another one; the third finds the certificate.
func TestOneObtains(t *testing.T) {
	url := servers.SharedRedis(t).URL()
	a := &authority{arrived: make(chan struct{}), sign: make(chan struct{})}
	server := httptest.NewServer(a)
	defer server.Close()
	all, err := machines.StartAll(t.Context(), config{url, t.TempDir(), server.URL}, 3)
	if err != nil {
		t.Fatal(err)
	}
	defer all.Kill()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()

	outcomes := map[int]func(context.Context) (struct{}, error){}
	for _, m := range all {
		outcomes[m.Pid()] = m.Send(site)
	}
	receive(t, ctx, a.arrived)
	holder := waitFor(t, ctx, url, 2)
	for _, m := range all {
		if m.Pid() == holder {
			m.Kill()
			delete(outcomes, holder)
		}
	}
	receive(t, ctx, a.arrived)
	waitFor(t, ctx, url, 1)
	a.sign <- struct{}{}
	for _, outcome := range outcomes {
		if _, err := outcome(ctx); err != nil {
			t.Error(err)
		}
	}
	if n := a.requests.Load(); n != 2 {
		t.Errorf("the authority was asked %d times", n)
	}
}

func receive(t *testing.T, ctx context.Context, from <-chan struct{}) {
	t.Helper()
	select {
	case <-from:
	case <-ctx.Done():
		t.Fatal("the authority was not asked in time")
	}
}

// waitFor waits until so many processes wait for the lock, and returns the holder's id.
func waitFor(t *testing.T, ctx context.Context, url string, waiters int) (pid int) {
	t.Helper()
	locks, err := open(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close()
	if err := servers.Poll(ctx, func() error {
		status, err := locks.Inspect(ctx, "issue_cert_"+site)
		if err == nil && (!status.Held || status.Waiters != waiters) {
			err = errors.New("others wait")
		}
		pid = status.PID
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return pid
}

func TestStorage(t *testing.T) {
	const name = "storage_clean"
	url := servers.SharedRedis(t).URL()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	told := make(chan struct{}, 1) // of a loss: until then a lock counts as held
	machine := func() (*certmagiclock.Storage, *lockport.Client) {
		locks, err := open(ctx, url, lockport.Observe(lockport.Hooks{Lost: func(lockport.HoldEvent) { told <- struct{}{} }}))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = locks.Close() })
		return certmagiclock.New(&certmagic.FileStorage{Path: t.TempDir()}, locks), locks
	}
	ours, ourLocks := machine()
	theirs, theirLocks := machine()
	check := func(what string, err error, wanted ...error) {
		t.Helper()
		if (err == nil) != (len(wanted) == 0) {
			t.Errorf("%s returned %v, not %v", what, err, wanted)
		}
		for _, w := range wanted {
			if !errors.Is(err, w) {
				t.Errorf("%s returned %v, not %v", what, err, w)
			}
		}
	}
	try := func(s *certmagiclock.Storage, wanted bool) {
		t.Helper()
		if ok, err := s.TryLock(ctx, name); ok != wanted || err != nil {
			t.Errorf("TryLock returned %v, %v", ok, err)
		}
	}
	lose := func(locks *lockport.Client) {
		t.Helper()
		status, err := locks.Inspect(ctx, name)
		check("Inspect", err)
		check("Break", locks.Break(ctx, name, status.Owner))
		select {
		case <-told:
		case <-ctx.Done():
			t.Fatal("nobody was told of the loss")
		}
	}

	if ours.Unlock(ctx, name) == nil || ours.RenewLockLease(ctx, name, time.Hour) == nil {
		t.Error("Unlock or RenewLockLease succeeds without Lock")
	}

	check("Lock", ours.Lock(ctx, name))
	try(ours, false)
	try(theirs, false)
	soon, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	check("Lock", theirs.Lock(soon, name), context.DeadlineExceeded, lockport.ErrHeld)
	check("RenewLockLease", ours.RenewLockLease(ctx, name, time.Hour))

	// Lost, and somebody else has it. The place in the queue that they gave up may still have been there when the lock was lost, so they wait.
	lose(ourLocks)
	check("Lock", theirs.Lock(ctx, name))
	check("RenewLockLease", ours.RenewLockLease(ctx, name, time.Hour), lockport.ErrLost, lockport.ErrHeld)
	check("Unlock", ours.Unlock(ctx, name), lockport.ErrLost)
	try(ours, false)

	// Lost, and nobody has it.
	lose(theirLocks)
	check("RenewLockLease", theirs.RenewLockLease(ctx, name, time.Hour))
	try(ours, false)
	check("Unlock", theirs.Unlock(ctx, name))

	// Lost, and another goroutine of the process has it: neither call of Unlock ends what the other goroutine has.
	check("Lock", ours.Lock(ctx, name))
	lose(ourLocks)
	check("Lock", ours.Lock(ctx, name))
	check("Unlock", ours.Unlock(ctx, name), lockport.ErrLost)
	try(theirs, false)
	check("Unlock", ours.Unlock(ctx, name))
	try(theirs, true)
	check("Unlock", theirs.Unlock(ctx, name))
}
