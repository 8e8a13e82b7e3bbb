package lockport_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/backend/memory"
	"github.com/lockport/lockport/backend/memory/memorytest"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
)

const ttl = 12 * time.Second

// world is a lock server in memory with its clients, in a bubble of testing/synctest: time passes only when all wait.
type world struct {
	*testing.T
	ctx    context.Context
	server *memory.Server
	tardy  bool // the clients' backends do not say that they are prompt
}

// bubble runs f in two worlds: in one, claims are made on the caller's goroutine, in the other they are not.
func bubble(t *testing.T, f func(w *world)) {
	t.Helper()
	for _, tardy := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f(&world{T: t, ctx: t.Context(), server: memory.NewServer(), tardy: tardy})
		})
	}
}

// within is w with a context that ends after d.
func (w *world) within(d time.Duration) *world {
	brief := *w
	ctx, cancel := context.WithTimeout(w.ctx, d)
	w.Cleanup(cancel)
	brief.ctx = ctx
	return &brief
}

// client makes a client of the server that does not log, and the backend that controls it.
func (w *world) client(opts ...lockport.Option) (*lockport.Client, *memorytest.Backend) {
	b := memorytest.NewBackend(w.server, nil)
	c := w.on(b, opts...)
	w.Cleanup(b.Resume) // before the client is closed
	return c, b
}

// other makes one more client of the server, as in another process.
func (w *world) other() *lockport.Client {
	c, _ := w.client()
	return c
}

// on makes a client of d that does not log.
func (w *world) on(d driver.Backend, opts ...lockport.Option) *lockport.Client {
	if w.tardy {
		d = stating{d, func(caps *driver.Capabilities) { caps.Prompt = false }}
	}
	c := peer.Must(lockport.New(d, append([]lockport.Option{lockport.TTL(ttl), lockport.Logger(nil)}, opts...)...))(w)
	w.Cleanup(func() { _ = c.Close() })
	return c
}

func (w *world) acquire(c *lockport.Client, name string, opts ...lockport.AcquireOption) *lockport.Lock {
	w.Helper()
	l := peer.Must(c.Acquire(w.ctx, name, opts...))(w)
	require.True(w, l.Valid())
	return l
}

// sleep lets d pass, and waits until all goroutines are idle.
func (w *world) sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// acquiring is an Acquire under way.
type acquiring struct {
	w      *world
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{}
	lock   *lockport.Lock
	err    error
}

// begin starts an Acquire and waits until all goroutines are idle.
func (w *world) begin(c *lockport.Client, name string, opts ...lockport.AcquireOption) *acquiring {
	a := &acquiring{w: w, done: make(chan struct{})}
	a.ctx, a.cancel = context.WithCancel(w.ctx)
	go func() {
		defer close(a.done)
		a.lock, a.err = c.Acquire(a.ctx, name, opts...)
	}()
	synctest.Wait()
	return a
}

func (a *acquiring) finished() bool { return isClosed(a.done) }

// got waits for the lock.
func (a *acquiring) got() *lockport.Lock {
	a.w.Helper()
	<-a.done
	require.NoError(a.w, a.err)
	require.True(a.w, a.lock.Valid())
	require.Greater(a.w, len(a.lock.Owner()), 33)
	return a.lock
}

func (w *world) release(l *lockport.Lock) {
	w.Helper()
	require.NoError(w, l.Release(w.ctx))
	require.ErrorIs(w, l.Err(), lockport.ErrReleased)
}

func (w *world) token(l *lockport.Lock) lockport.Token {
	w.Helper()
	token, ok := l.Token()
	require.True(w, ok)
	return token
}

// nobodyHolds checks that name is free once all goroutines are idle.
func (w *world) nobodyHolds(name string) {
	w.Helper()
	synctest.Wait() // for background work
	w.release(peer.Must(w.other().TryAcquire(w.ctx, name))(w))
}

// requireWaiters checks how many claims wait at the server, once all goroutines are idle.
func (w *world) requireWaiters(name string, want int) {
	w.Helper()
	synctest.Wait()
	require.Equal(w, want, peer.Must(w.other().Inspect(w.ctx, name))(w).Waiters, "claims in the server's queue")
}

func isClosed(c <-chan struct{}) bool {
	synctest.Wait()
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// stating is a backend with other capabilities.
type stating struct {
	driver.Backend
	change func(*driver.Capabilities)
}

func (b stating) Unwrap() driver.Backend { return b.Backend }

func (b stating) Capabilities() driver.Capabilities {
	caps := b.Backend.Capabilities()
	b.change(&caps)
	return caps
}

// call is a call to the server.
type call struct {
	ctx    context.Context
	method string
	do     func() error
}

// around is a network that fails on demand, and whose calls go through handle.
type around struct {
	*memorytest.Faults
	handle func(call) error
}

// Call implements memory.Network. Detach goes on after its context ended, as a request that is under way does.
func (n around) Call(ctx context.Context, method string, serve func(context.Context) error) error {
	arrives := ctx
	if method == "Detach" {
		arrives = context.WithoutCancel(ctx)
	}
	return n.handle(call{ctx, method, func() error { return n.Faults.Call(arrives, method, serve) }})
}

// around makes a backend whose calls go through handle.
func (w *world) around(handle func(call) error) *memorytest.Backend {
	faults := new(memorytest.Faults)
	return &memorytest.Backend{Faults: faults, Backend: memory.NewBackend(memory.Options{Server: w.server, Network: around{faults, handle}})}
}

// trying is a backend with another TryAcquire.
type trying struct {
	*memorytest.Backend
	try func(context.Context, driver.Request) (driver.Lease, error)
}

func (b trying) TryAcquire(ctx context.Context, req driver.Request) (driver.Lease, error) {
	return b.try(ctx, req)
}

// renewing is a backend with another RenewBatch.
type renewing struct {
	*memorytest.Backend
	renew func(context.Context, []driver.Lease, []driver.Renewal)
}

func (b renewing) RenewBatch(ctx context.Context, leases []driver.Lease, results []driver.Renewal) {
	b.renew(ctx, leases, results)
}
