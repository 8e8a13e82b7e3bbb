// Package fencetest tests fences against their promises, on real servers. Above all, a fence refuses a holder that does not know it lost its lock.
// A child process takes locks, reads, and is frozen. The test takes the locks and writes. Then the child thaws and writes late. The package is for
// tests alone.
package fencetest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/internal/lab/worker"
)

// Store keeps a number for each name, initially 0, with a fence for it. All functions may be called concurrently.
type Store struct {
	// Register registers a holder of name: the lock l, or, if l is nil, the token.
	Register func(ctx context.Context, name string, token lockport.Token, l *lockport.Lock) (Write, error)
	// Bare writes without the fence.
	Bare  func(ctx context.Context, name string, value int64) error
	Get   func(ctx context.Context, name string) (int64, error)
	Close func()
}

// Write writes for one holder. A refusal is an error that matches fence.ErrStale.
type Write func(ctx context.Context, value int64) error

// Fence is a fence whose holders write through guards.
type Fence[G any] interface {
	Register(ctx context.Context, token lockport.Token) (G, error)
	RegisterLock(ctx context.Context, l *lockport.Lock) (G, error)
}

// Register implements Store.Register with f. Its guards write with write.
func Register[G any](ctx context.Context, f Fence[G], token lockport.Token, l *lockport.Lock, write func(context.Context, G, int64) error) (Write, error) {
	register := func() (G, error) { return f.Register(ctx, token) }
	if l != nil {
		register = func() (G, error) { return f.RegisterLock(ctx, l) }
	}
	g, err := register()
	return func(ctx context.Context, value int64) error { return write(ctx, g, value) }, err
}

// Registers registers a holder, which must not be refused.
func Registers[G any](t testing.TB, f Fence[G], token lockport.Token) G {
	t.Helper()
	g, err := f.Register(t.Context(), token)
	require.NoError(t, err)
	return g
}

// Place locates a store, in a form that open reads, and its locks, by URL.
type Place struct{ Store, Locks string }

// locks makes a client of the locks.
func (p Place) locks(ctx context.Context, ttl time.Duration) (*lockport.Client, error) {
	return lockport.Open(ctx, p.Locks, lockport.TTL(ttl), lockport.Logger(nil))
}

// open opens the store at a place. It is Main's argument.
var open func(ctx context.Context, place string) (*Store, error)

// Main runs the tests and returns the exit code for TestMain. In the child process of late holders it does not return.
func Main(m *testing.M, openStore func(ctx context.Context, place string) (*Store, error)) int {
	open = openStore
	lateWorker.Main(func(ctx context.Context, c config) (worker.Worker[struct{}, counts], error) { return begin(ctx, c) })
	return m.Run()
}
