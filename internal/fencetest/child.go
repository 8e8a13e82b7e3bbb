package fencetest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/fence"
)

// variable has the task of a child process, as JSON.
const variable = "LOCKPORT_FENCETEST_CHILD"

// patience bounds each step of a run.
const patience = 30 * time.Second

// Main is what TestMain is to exit with: the result of the tests, or that of a child, where Run started this process as one.
func Main(m *testing.M, kinds map[string]Kind) int {
	text := os.Getenv(variable)
	if text == "" {
		known = kinds
		return m.Run()
	}
	if err := child(text, kinds, os.Stdin, json.NewEncoder(os.Stdout)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// known are the kinds that Main was given.
var known map[string]Kind

// task is what a child is told when it starts.
type task struct {
	Kind, Store, Locks string
	TTL                time.Duration
	Names              []string
}

// The orders to a child, a line each.
const (
	orderTake  = "take"  // take the locks of all names, register, read
	orderWrite = "write" // write for all names, without another look at the lock
)

// answer is that of a child to an order.
type answer struct {
	Written, Refused int      // of orderWrite
	Errors           []string // what should not be
}

// child carries out orders until there are no more: the parent has ended, or wants it to.
func child(text string, kinds map[string]Kind, orders io.Reader, out *json.Encoder) error {
	var job task
	if err := json.Unmarshal([]byte(text), &job); err != nil {
		return err
	}
	p, err := open(kinds[job.Kind], job)
	if err != nil {
		return err
	}
	defer p.close()
	for lines := bufio.NewScanner(orders); lines.Scan(); {
		var a answer
		switch order := lines.Text(); order {
		case orderTake:
			a = p.take()
		case orderWrite:
			a = p.write(func(int) bool { return true })
			p.release()
		default:
			return fmt.Errorf("unknown order %q", order)
		}
		if err := out.Encode(a); err != nil {
			return err
		}
	}
	return nil
}

// party is one of the two who write: the child, or the test itself.
type party struct {
	names []string
	store Store
	locks *lockport.Client
	held  []holder // by the index of the name
}

// holder is one hold, which has read.
type holder struct {
	lock  *lockport.Lock
	value int64
	write func(ctx context.Context, value int64) error
}

func open(k Kind, job task) (*party, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	store, err := k.Store(ctx, job.Store)
	if err != nil {
		return nil, err
	}
	locks, err := k.Locks(ctx, job.Locks, job.TTL)
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return &party{names: job.Names, store: store, locks: locks, held: make([]holder, len(job.Names))}, nil
}

func (p *party) close() {
	_ = p.locks.Close() // may find locks lost
	_ = p.store.Close()
}

// take takes all names at once, registers, and reads.
func (p *party) take() answer {
	return p.each(func(ctx context.Context, i int) error {
		h := &p.held[i]
		var err error
		for { // on a busy machine a small TTL may be over before the grant is there
			if h.lock, err = p.locks.Acquire(ctx, p.names[i]); !errors.Is(err, lockport.ErrUnavailable) || ctx.Err() != nil {
				break
			}
		}
		if err != nil {
			return err
		}
		h.value, h.write, err = p.store.Begin(ctx, h.lock)
		return err
	})
}

// write writes the number that was read and one more, for the names that are picked. Nobody asks whether the lock is still valid: what may come
// between that question and the writing is what fences are for.
func (p *party) write(picked func(i int) bool) answer {
	return p.each(func(ctx context.Context, i int) error {
		if !picked(i) {
			return errNothing
		}
		return p.held[i].write(ctx, p.held[i].value+1)
	})
}

var errNothing = errors.New("nothing to do")

// release ends all holds; that they were lost is no surprise.
func (p *party) release() {
	p.each(func(ctx context.Context, i int) error { return p.held[i].lock.Release(ctx) })
}

// each calls f for every name at once.
func (p *party) each(f func(ctx context.Context, i int) error) (a answer) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	results := make(chan error)
	for i := range p.names {
		go func() { results <- f(ctx, i) }()
	}
	for range p.names {
		switch err := <-results; {
		case err == nil:
			a.Written++
		case errors.Is(err, fence.ErrStale):
			a.Refused++
		case err != errNothing:
			a.Errors = append(a.Errors, err.Error())
		}
	}
	return a
}
