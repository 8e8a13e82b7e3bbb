package fencetest

import (
	"context"
	"crypto/rand"
	"errors"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/fence"
)

// Place is a server with fences and values.
type Place[G Guard] struct {
	Package   string // the fences', which its errors name
	Addr      string
	Open      func(addr string) (Values[G], error)
	Locks     func() *lockport.Client                 // of locks on the same server
	LockFirst bool                                    // RegisterLock looks at the lock before the tokens
	Stored    func(name string, token lockport.Token) // requires the fence to be stored as documented
	Remove    func(name string)                       // removes the fence
}

// subject is a fence of a place, and the value that it guards.
type subject[G Guard] struct {
	*testing.T
	Place[G]
	Values[G]
	Fence[G]
	name string
}

// Cases holds the fences of a place to what all fences promise. The test imports backend/memory, for locks of another backend.
func Cases[G Guard](t *testing.T, p Place[G]) {
	for name, c := range map[string]func(*subject[G]){
		"OlderHolder": olderHolder[G], "Tokens": tokens[G], "MissingFence": missingFence[G], "BadInput": badInput[G],
		"LockOnTheSameServer": lockOnTheSameServer[G], "LateWrite": lateWrite[G], "ContextEnds": contextEnds[G],
	} {
		t.Run(name, func(t *testing.T) { c(p.at(t, p.Addr, rand.Text())) })
	}
}

// at is a subject as a client of addr sees it.
func (p Place[G]) at(t *testing.T, addr, name string) *subject[G] {
	values, err := p.Open(addr)
	must(t, err)
	t.Cleanup(func() { _ = values.Close() })
	f, err := values.Fence(name)
	must(t, err)
	return &subject[G]{t, p, values, f, name}
}

// through is the subject behind a proxy.
func (s *subject[G]) through() (*subject[G], *faultproxy.Proxy) {
	proxy, err := faultproxy.New(s.Addr)
	must(s, err)
	s.Cleanup(func() { _ = proxy.Close() })
	return s.at(s.T, proxy.Addr(), s.name), proxy
}

func (s *subject[G]) registers(token lockport.Token) G {
	s.Helper()
	g, err := s.Register(s.Context(), token)
	must(s, err)
	return g
}

func (s *subject[G]) write(g G, value string) error {
	return s.Write(s.Context(), g, s.name, value)
}

func (s *subject[G]) writes(g G, value string) {
	s.Helper()
	must(s, s.write(g, value))
	s.has(value)
}

func (s *subject[G]) has(value string) {
	s.Helper()
	got, err := s.Get(s.Context(), s.name)
	must(s, err)
	want(s, got == value, "the value is %q, want %q", got, value)
}

func (s *subject[G]) refuses(g G, seen lockport.Token) {
	s.Helper()
	Stale(s, s.Package, s.write(g, "late"), g.Token(), seen)
}

// is requires err to be one line that names the package, and to match all of targets.
func (s *subject[G]) is(err error, targets ...error) {
	s.Helper()
	OneLine(s, s.Package, err)
	is(s, err, targets...)
}

// The latest holder writes, and the one before does not any more; nor can it come back.
func olderHolder[G Guard](s *subject[G]) {
	old := s.registers(7)
	s.writes(old, "old")
	latest := s.registers(10) // less than 7, if they were compared as text
	s.refuses(old, 10)
	s.has("old")
	s.writes(latest, "new")
	_, err := s.Register(s.Context(), 7)
	Stale(s, s.Package, err, 7, 10)
	s.writes(latest, "newer") // a refused registration changes nothing
}

// Tokens are compared as whole numbers, up to the greatest. Equal ones pass.
func tokens[G Guard](s *subject[G]) {
	for _, token := range []lockport.Token{1, 9, 10, 99, 100, 1 << 53, 1<<53 + 1, 1<<53 + 2, 1 << 62, 1<<63 - 1, math.MaxUint64 - 1, math.MaxUint64} {
		first, second := s.registers(token), s.registers(token)
		for _, g := range []G{first, second, first} {
			s.writes(g, "x")
		}
		s.Stored(s.name, token)
		if token > 1 {
			_, err := s.Register(s.Context(), token-1)
			Stale(s, s.Package, err, token-1, token)
		}
	}
}

// A fence that is gone lets nobody write, and does not come back by a write. Whoever registers opens it, and its older guards stay shut.
func missingFence[G Guard](s *subject[G]) {
	g := s.registers(5)
	s.Remove(s.name)
	for range 2 {
		err := s.write(g, "x")
		s.is(err, fence.ErrStale)
		says(s, err, "register again")
		s.has("")
	}
	for _, token := range []lockport.Token{1, 2, 4} {
		older := s.registers(token)
		err := s.write(g, "x")
		s.is(err, fence.ErrStale)
		says(s, err, "older")
		s.writes(older, "y")
	}
	s.registers(6)
	s.refuses(g, 6)
}

func badInput[G Guard](s *subject[G]) {
	_, err := s.Register(s.Context(), 0)
	s.is(err, fence.ErrNoToken)
	m, err := lockport.Open(s.Context(), "memory:", lockport.Logger(nil))
	must(s, err)
	defer func() { _ = m.Close() }()
	l, err := m.Acquire(s.Context(), "x")
	must(s, err)
	_, err = s.RegisterLock(s.Context(), l)
	says(s, err, "backend ")
}

// Where the lock is on the same server, its entry counts too, at once; and alone it does not count.
func lockOnTheSameServer[G Guard](s *subject[G]) {
	l, l2 := HandOff(s, s.Locks(), "account "+rand.Text())
	register := func(l *lockport.Lock) G {
		g, err := s.RegisterLock(s.Context(), l)
		must(s, err)
		return g
	}
	g := register(l)
	s.writes(g, "held")

	// Handed on inside the process the entry stays, and the hold before is refused all the same.
	g2 := register(l2)
	s.refuses(g, g2.Token())
	s.writes(g2, "second")
	register(l2) // again

	// Once it is released, it is refused before anybody else has registered.
	must(s, l2.Release(s.Context()))
	s.is(s.write(g2, "late"), lockport.ErrLost, fence.ErrStale)
	_, err := s.RegisterLock(s.Context(), l2)
	s.is(err, lockport.ErrLost)
	s.has("second")
	newer := s.registers(g2.Token() + 1)
	_, err = s.RegisterLock(s.Context(), l2)
	if s.LockFirst {
		s.is(err, lockport.ErrLost, fence.ErrStale)
	} else {
		Stale(s, s.Package, err, g2.Token(), newer.Token())
	}
	s.refuses(g2, newer.Token())
}

// HandOff makes two holds of name that share one claim: before was released to after, which is held, inside the process, so that the server
// saw nothing of it.
func HandOff(t testing.TB, c *lockport.Client, name string) (before, after *lockport.Lock) {
	t.Helper()
	for range 100 { // until the second caller is in the queue when the first hold is released
		before, err := c.Acquire(t.Context(), name)
		must(t, err)
		begun, next := make(chan struct{}), make(chan error, 1)
		go func() {
			close(begun)
			var err error
			after, err = c.Acquire(context.Background(), name)
			next <- err
		}()
		<-begun
		must(t, before.Release(t.Context()))
		must(t, <-next)
		if before.Owner() == after.Owner() {
			return before, after
		}
		must(t, after.Release(t.Context()))
	}
	t.Fatal("no hold was handed on")
	return nil, nil
}

// A write that was sent while the token was the latest, and arrives when it is not any more, does nothing.
func lateWrite[G Guard](s *subject[G]) {
	far, proxy := s.through()
	old := far.registers(5)
	far.writes(old, "old") // the connection is there
	proxy.Freeze()
	before := proxy.Requests()
	done := make(chan error, 1)
	go func() { done <- far.write(old, "late") }()
	for deadline := time.Now().Add(patience); proxy.Requests() == before; time.Sleep(time.Millisecond) {
		want(s, time.Now().Before(deadline), "nothing was sent")
	}
	s.registers(6)
	proxy.Restore()
	Stale(s, s.Package, <-done, 5, 6)
	s.has("old")
}

// Every call returns soon after its context has ended, with the context's error: at once where that has ended before, and while the network is silent.
func contextEnds[G Guard](s *subject[G]) {
	far, proxy := s.through()
	g := far.registers(5)
	far.writes(g, "x")
	for what, call := range map[string]func(context.Context) error{
		"register": func(ctx context.Context) error { _, err := far.Register(ctx, 5); return err },
		"write":    func(ctx context.Context) error { return far.Write(ctx, g, s.name, "x") },
	} {
		ended, cancel := context.WithCancel(s.Context())
		cancel()
		is(s, call(ended), context.Canceled)

		proxy.Freeze()
		ctx, cancel := context.WithTimeout(s.Context(), 50*time.Millisecond)
		done := make(chan error, 1)
		go func() { done <- call(ctx) }()
		select {
		case err := <-done:
			s.is(err, context.DeadlineExceeded)
			want(s, errors.Is(err, driver.ErrUnknown) || errors.Is(err, driver.ErrUnavailable), "%s: %v", what, err)
		case <-time.After(2 * time.Second): // with room for a busy machine
			s.Fatal("the call did not return: ", what)
		}
		cancel()
		proxy.Restore()
	}
}

// Race has holders come and write at once: once a newer one has written, none that is older does. fence is a client's, write has the store
// append the guard's token, and order returns what it has.
func Race[G Guard](t *testing.T, newFence func() Fence[G], write func(g G) error, order func() []lockport.Token) {
	t.Helper()
	const holders, each, first = 16, 20, 95 // 99 and 100 are among the tokens
	var wrote, count [holders]int
	var all sync.WaitGroup
	for i := range holders {
		token, f := lockport.Token(first+i), newFence()
		all.Go(func() {
			g, err := f.Register(t.Context(), token)
			for err == nil && wrote[i] < each {
				if err = write(g); err == nil {
					wrote[i]++
				}
			}
			if err != nil && !errors.Is(err, fence.ErrStale) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	written := order()
	want(t, slices.IsSorted(written), "an older holder wrote after a newer one: %v", written)
	for _, token := range written {
		count[token-first]++
	}
	want(t, count == wrote, "%v writes are there, and %v were not refused", count, wrote)
	want(t, count[holders-1] == each, "the latest was refused")
}
