// Package fencetest shows on real servers that a fence refuses a holder that lost its lock without knowing: a child process takes locks,
// reads, and is stopped; others take the locks, and write; then it goes on and writes late. It serves tests alone.
package fencetest

import (
	"context"
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
