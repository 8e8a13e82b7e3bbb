package fencetest

import (
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/fence"
)

// Subject is a store, and what its fences are like on the server.
type Subject struct {
	Place
	Errors
	Addr   string                                  // of the server, in Place.Store
	Max    lockport.Token                          // the greatest that a fence takes; 0: any
	Stored func(name string, token lockport.Token) // requires the fence to be stored as documented
	Remove func(name string)                       // removes the fence
	Odd    []string                                // what is no token
	Put    func(name, odd string) (undo func())    // has odd stored in the fence; undo requires that it is still there
	Beside bool                                    // Put stores it beside the token, which is still there
	// Transactional: a guard is a statement of the caller's transaction. It knows the token alone and no lock, opens a fence that is missing, and its errors
	// are the client's.
	Transactional bool
}

// fixture is a subject in a test, and one name of its store.
type fixture struct {
	*testing.T
	Subject
	*Store
	name string
}

// Cases holds a store with guards to what all fences promise. The test imports backend/memory, for locks of another backend.
func Cases(t *testing.T, s Subject) {
	cases := map[string]func(*fixture){
		"OlderHolder": olderHolder, "Tokens": tokens, "NoToken": noToken, "LateWrite": lateWrite, "ContextEnds": contextEnds, "Race": race, "LateHolders": lateHolders,
	}
	if !s.Transactional {
		maps.Copy(cases, map[string]func(*fixture){
			"MissingFence": missingFence, "SomethingElse": somethingElse, "LockElsewhere": lockElsewhere, "LockOnTheSameServer": lockOnTheSameServer,
		})
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			test((&fixture{T: t, Subject: s, name: rand.Text()}).at(s.Addr))
		})
	}
}

// at is the fixture as a client of addr sees it.
func (f *fixture) at(addr string) *fixture {
	there := *f
	var err error
	there.Store, err = stores[f.Kind](f.Context(), strings.Replace(f.Place.Store, f.Addr, addr, 1))
	must(f, err)
	f.Cleanup(there.Store.Close)
	return &there
}

// through is the fixture behind a proxy. Its holder has written 1 with the token 5, so that the connection is there.
func (f *fixture) through() (*fixture, Write, *faultproxy.Proxy) {
	proxy, err := faultproxy.New(f.Addr)
	must(f, err)
	f.Cleanup(func() { _ = proxy.Close() })
	far := f.at(proxy.Addr())
	write := far.registers(5)
	far.writes(write, 1)
	return far, write, proxy
}

func (f *fixture) register(token lockport.Token) (Write, error) {
	return f.Register(f.Context(), f.name, token, nil)
}

func (f *fixture) registers(token lockport.Token) Write {
	f.Helper()
	write, err := f.register(token)
	must(f, err)
	return write
}

func (f *fixture) writes(write Write, value int64) {
	f.Helper()
	must(f, write(f.Context(), value))
	f.has(value)
}

func (f *fixture) has(value int64) {
	f.Helper()
	got, err := f.Get(f.Context(), f.name)
	must(f, err)
	want(f, got == value, "the value is %d, want %d", got, value)
}

// fails requires err to be of one line, to match all of targets, and to say text.
func (f *fixture) fails(err error, text string, targets ...error) {
	f.Helper()
	f.OneLine(f, err)
	says(f, err, text)
	is(f, err, targets...)
}

// The latest holder writes, and the one before does not any more; nor can it come back.
func olderHolder(f *fixture) {
	old := f.registers(7)
	f.writes(old, 1)
	latest := f.registers(10) // less than 7, if they were compared as text
	f.Stale(f, old(f.Context(), 2), 7, 10)
	f.has(1)
	f.writes(latest, 3)
	_, err := f.register(7)
	f.Stale(f, err, 7, 10)
	f.writes(latest, 4) // a refused registration changes nothing
}

// Tokens are compared as whole numbers, up to the greatest. Equal ones pass.
func tokens(f *fixture) {
	for _, token := range []lockport.Token{1, 9, 10, 99, 100, 1 << 53, 1<<53 + 1, 1<<53 + 2, 1 << 62, 1<<63 - 1, math.MaxUint64 - 1, math.MaxUint64} {
		if f.Max > 0 && token > f.Max {
			break
		}
		first, second := f.registers(token), f.registers(token)
		for i, write := range []Write{first, second, first} {
			f.writes(write, int64(i))
		}
		f.Stored(f.name, token)
		if token > 1 {
			_, err := f.register(token - 1)
			f.Stale(f, err, token-1, token)
		}
	}
}

// A fence that is gone lets nobody write, and does not come back by a write. Whoever registers opens it, and its older guards stay shut.
func missingFence(f *fixture) {
	gone := f.registers(5)
	f.Remove(f.name)
	for range 2 {
		f.fails(gone(f.Context(), 1), "register again", fence.ErrStale)
		f.has(0)
	}
	for _, token := range []lockport.Token{1, 2, 4} {
		older := f.registers(token)
		f.fails(gone(f.Context(), 1), "older", fence.ErrStale)
		f.writes(older, 2)
	}
	f.registers(6)
	f.Stale(f, gone(f.Context(), 1), 5, 6)
}

// Nobody registers or writes where the fence has something else, which is left alone.
func somethingElse(f *fixture) {
	holder := f.registers(5)
	for _, odd := range f.Odd {
		undo := f.Put(f.name, odd)
		for _, token := range []lockport.Token{4, 5, 6} {
			_, err := f.register(token)
			f.fails(err, "a place of its own")
			want(f, !errors.Is(err, fence.ErrStale), "%q: %v", odd, err)
		}
		if !f.Beside {
			f.fails(holder(f.Context(), 1), "a place of its own")
			f.has(0)
		}
		undo()
	}
	f.writes(f.registers(5), 1)
}

func noToken(f *fixture) {
	_, err := f.register(0)
	f.fails(err, "", fence.ErrNoToken)
}

func lockElsewhere(f *fixture) {
	m, err := lockport.Open(f.Context(), "memory:", lockport.Logger(nil))
	must(f, err)
	defer func() { _ = m.Close() }()
	l, err := m.Acquire(f.Context(), "x")
	must(f, err)
	_, err = f.Register(f.Context(), f.name, 5, l)
	says(f, err, "backend ")
}

// Where the lock is on the same server, its entry counts too, at once; and alone it does not count.
func lockOnTheSameServer(f *fixture) {
	c, err := locks(f.Context(), f.Locks, longTTL/6)
	must(f, err)
	defer func() { _ = c.Close() }()
	l, l2 := HandOff(f, c, "account "+rand.Text())
	token, _ := l.Token()
	token2, _ := l2.Token()
	register := func(l *lockport.Lock) Write {
		write, err := f.Register(f.Context(), f.name, 0, l)
		must(f, err)
		return write
	}
	first := register(l)
	f.writes(first, 1)

	// Handed on inside the process the entry stays, and the hold before is refused all the same.
	second := register(l2)
	f.Stale(f, first(f.Context(), 2), token, token2)
	f.writes(second, 3)
	register(l2) // again

	// Once it is released, it is refused before anybody else has registered.
	must(f, l2.Release(f.Context()))
	f.fails(second(f.Context(), 4), "", lockport.ErrLost, fence.ErrStale)
	_, err = f.Register(f.Context(), f.name, 0, l2)
	f.fails(err, "", lockport.ErrLost)
	f.has(3)
	f.registers(token2 + 1)
	_, err = f.Register(f.Context(), f.name, 0, l2)
	f.Stale(f, err, token2, token2+1)
	f.Stale(f, second(f.Context(), 4), token2, token2+1)
}

// A write that was sent while the token was the latest, and arrives when it is not any more, does nothing.
func lateWrite(f *fixture) {
	_, old, proxy := f.through()
	proxy.Freeze()
	before := proxy.Requests()
	done := make(chan error, 1)
	go func() { done <- old(f.Context(), 2) }()
	for deadline := time.Now().Add(patience); proxy.Requests() == before; time.Sleep(time.Millisecond) {
		want(f, time.Now().Before(deadline), "nothing was sent")
	}
	f.registers(6)
	proxy.Restore()
	f.Stale(f, <-done, 5, 6)
	f.has(1)
}

// Holders that were stopped until their locks had expired go on, and write.
func lateHolders(f *fixture) {
	Late(f.T, f.Place, nil, Bare, ByToken)
	if !f.Transactional {
		Late(f.T, f.Place, nil, ByLock)
	}
}

// Every call returns soon after its context has ended, with the context's error: at once where that has ended before, and while the network is silent.
func contextEnds(f *fixture) {
	far, write, proxy := f.through()
	for what, call := range map[string]func(context.Context) error{
		"register": func(ctx context.Context) error { _, err := far.Register(ctx, f.name, 5, nil); return err },
		"write":    func(ctx context.Context) error { return write(ctx, 2) },
	} {
		ended, cancel := context.WithCancel(f.Context())
		cancel()
		is(f, call(ended), context.Canceled)

		proxy.Freeze()
		ctx, cancel := context.WithTimeout(f.Context(), 50*time.Millisecond)
		done := make(chan error, 1)
		go func() { done <- call(ctx) }()
		select {
		case err := <-done:
			is(f, err, context.DeadlineExceeded)
			if !f.Transactional {
				f.OneLine(f, err)
				want(f, errors.Is(err, driver.ErrUnknown) || errors.Is(err, driver.ErrUnavailable), "%s: %v", what, err)
			}
		case <-time.After(2 * time.Second): // with room for a busy machine
			f.Fatal("the call did not return: ", what)
		}
		cancel()
		proxy.Restore()
	}
}
