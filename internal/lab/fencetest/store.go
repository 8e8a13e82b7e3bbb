// Package fencetest holds fences to what they promise, on real servers. Above all a fence refuses a holder that lost its lock without knowing: a child process
// takes locks, reads, and is stopped; others take the locks, and write; then it goes on and writes late. It serves tests alone.
package fencetest

import (
	"cmp"
	"context"
	"strconv"
	"time"

	"github.com/lockport/lockport"
)

// Store is the resource: a number behind each name, 0 before it is first written. Safe for concurrent use.
type Store interface {
	// Begin registers the token of l, whose name is the number's, and reads the number afterwards. What it returns writes for this holder, at any time
	// later: an error that matches fence.ErrStale is a refusal. A store without a fence registers nothing, and always writes.
	Begin(ctx context.Context, l *lockport.Lock) (value int64, write func(ctx context.Context, value int64) error, err error)
	// Value reads the number.
	Value(ctx context.Context, name string) (int64, error)
	Close() error
}

// Kind is how a process gets its store and its locks: the test's own, and the child's, which is the same program run again.
type Kind struct {
	// Store opens the store that Run.Store names.
	Store func(ctx context.Context, target string) (Store, error)
	// Locks makes a client of locks on what Run.Locks names. ttl is small for those that are to be lost, and long for the others, which must not be, on a
	// busy machine either.
	Locks func(ctx context.Context, target string, ttl time.Duration) (*lockport.Client, error)
}

// Guard is what a holder writes through.
type Guard interface{ Token() lockport.Token }

// Fence is a fence of one of the packages with guards.
type Fence[G Guard] interface {
	Register(ctx context.Context, token lockport.Token) (G, error)
	RegisterLock(ctx context.Context, l *lockport.Lock) (G, error)
}

// Values are values behind names, empty before they are written, and a fence beside each.
type Values[G Guard] struct {
	Fence func(name string) (Fence[G], error)
	Write func(ctx context.Context, g G, name, value string) error
	Bare  func(ctx context.Context, name, value string) error // writes without a guard
	Get   func(ctx context.Context, name string) (string, error)
	Close func() error
}

// The ways to write to Values.
const (
	ByToken = "fence"
	ByLock  = "fence that looks at the lock too"
	Bare    = "no fence"
)

// Kinds are the stores that keep their numbers in Values, one for each way.
func Kinds[G Guard](open func(target string) (Values[G], error), locks func(context.Context, string, time.Duration) (*lockport.Client, error)) map[string]Kind {
	kinds := make(map[string]Kind)
	for _, way := range []string{ByToken, ByLock, Bare} {
		kinds[way] = Kind{Locks: locks, Store: func(_ context.Context, target string) (Store, error) {
			v, err := open(target)
			return numbers[G]{v, way}, err
		}}
	}
	return kinds
}

// numbers is a Store in Values.
type numbers[G Guard] struct {
	Values[G]
	way string
}

func (n numbers[G]) Begin(ctx context.Context, l *lockport.Lock) (int64, func(context.Context, int64) error, error) {
	name := l.Name()
	write := func(ctx context.Context, value string) error { return n.Bare(ctx, name, value) }
	if n.way != Bare {
		g, err := n.register(ctx, l)
		if err != nil {
			return 0, nil, err
		}
		write = func(ctx context.Context, value string) error { return n.Write(ctx, g, name, value) }
	}
	value, err := n.Value(ctx, name)
	return value, func(ctx context.Context, value int64) error { return write(ctx, strconv.FormatInt(value, 10)) }, err
}

func (n numbers[G]) register(ctx context.Context, l *lockport.Lock) (g G, err error) {
	f, err := n.Fence(l.Name())
	if err != nil {
		return g, err
	}
	if n.way == ByLock {
		return f.RegisterLock(ctx, l)
	}
	token, _ := l.Token()
	return f.Register(ctx, token)
}

func (n numbers[G]) Value(ctx context.Context, name string) (int64, error) {
	text, err := n.Get(ctx, name)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(cmp.Or(text, "0"), 10, 64)
}

func (n numbers[G]) Close() error { return n.Values.Close() }
