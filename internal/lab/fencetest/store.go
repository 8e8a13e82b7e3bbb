// Package fencetest tests fences against their promises, on real servers. Above all, a fence refuses a holder that does not know it lost its lock.
// A child process takes locks, reads, and is frozen. The test takes the locks and writes. Then the child thaws and writes late.
package fencetest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
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

// Register returns a Store.Register with the fences that open returns. Their guards write with write.
func Register[G any, F Fence[G]](
	open func(name string) (F, error), write func(ctx context.Context, g G, name string, value int64) error,
) func(ctx context.Context, name string, token lockport.Token, l *lockport.Lock) (Write, error) {
	return func(ctx context.Context, name string, token lockport.Token, l *lockport.Lock) (Write, error) {
		f, err := open(name)
		if err != nil {
			return nil, err
		}
		register := func() (G, error) { return f.Register(ctx, token) }
		if l != nil {
			register = func() (G, error) { return f.RegisterLock(ctx, l) }
		}
		g, err := register()
		return func(ctx context.Context, value int64) error { return write(ctx, g, name, value) }, err
	}
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

// Main is the TestMain of a fence's package. In the child process of late holders it does not return.
func Main(m *testing.M, openStore func(ctx context.Context, place string) (*Store, error)) {
	open = openStore
	lateWorker.Main(func(ctx context.Context, c config) (func(struct{}) (counts, error), func(), error) {
		p, err := begin(ctx, c)
		return func(struct{}) (counts, error) { return p.write(0, rounds) }, p.Close, err
	})
	m.Run()
}
