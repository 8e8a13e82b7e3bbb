package fencetest

import (
	"context"
	"crypto/rand"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/fence"
)

// Guard is what a holder writes through.
type Guard interface{ Token() lockport.Token }

// Registering is a fence's method Register.
type Registering[G Guard] func(ctx context.Context, token lockport.Token) (G, error)

// Place is a fence on a server of its own or shared, and a value that it guards, empty at first.
type Place[G Guard] struct {
	Package string // the fence's, which its errors name
	Addr    string // the server's

	Register     Registering[G]
	At           func(addr string) Registering[G] // the same fence, as seen by another client
	RegisterLock func(ctx context.Context, l *lockport.Lock) (G, error)
	Locks        func() *lockport.Client // of locks on the same server
	LockFirst    bool                    // RegisterLock looks at the lock before the tokens

	Write  func(ctx context.Context, g G, value string) error
	Get    func() string              // the value
	Stored func(token lockport.Token) // requires the fence to be stored as documented, with that token
	Remove func()                     // removes the fence
}

// Cases holds a fence to what all fences promise. The test imports backend/memory, for locks of another backend.
func Cases[G Guard](t *testing.T, place func(t *testing.T) Place[G]) {
	for name, c := range map[string]func(*testing.T, Place[G]){
		"OlderHolder": olderHolder[G], "Tokens": tokens[G], "MissingFence": missingFence[G], "BadInput": badInput[G],
		"LockOnTheSameServer": lockOnTheSameServer[G], "LateWrite": lateWrite[G],
	} {
		t.Run(name, func(t *testing.T) { c(t, place(t)) })
	}
}

func (p Place[G]) registers(t *testing.T, token lockport.Token) G {
	t.Helper()
	g, err := p.Register(t.Context(), token)
	must(t, err)
	return g
}

func (p Place[G]) writes(t *testing.T, g G, value string) {
	t.Helper()
	must(t, p.Write(t.Context(), g, value))
	p.has(t, value)
}

func (p Place[G]) has(t *testing.T, value string) {
	t.Helper()
	if got := p.Get(); got != value {
		t.Fatalf("the value is %q, want %q", got, value)
	}
}

func (p Place[G]) refuses(t *testing.T, g G, seen lockport.Token) {
	t.Helper()
	Stale(t, p.Package, p.Write(t.Context(), g, "late"), g.Token(), seen)
}

// The latest holder writes, and the one before does not any more; nor can it come back.
func olderHolder[G Guard](t *testing.T, p Place[G]) {
	old := p.registers(t, 7)
	p.writes(t, old, "old")
	latest := p.registers(t, 10) // less than 7, if they were compared as text
	p.refuses(t, old, 10)
	p.has(t, "old")
	p.writes(t, latest, "new")
	_, err := p.Register(t.Context(), 7)
	Stale(t, p.Package, err, 7, 10)
	p.writes(t, latest, "newer") // a refused registration changes nothing
}

// Tokens are compared as whole numbers, up to the greatest. Equal ones pass.
func tokens[G Guard](t *testing.T, p Place[G]) {
	for _, token := range []lockport.Token{1, 9, 10, 99, 100, 1 << 53, 1<<53 + 1, 1<<53 + 2, 1 << 62, 1<<63 - 1, math.MaxUint64 - 1, math.MaxUint64} {
		first, second := p.registers(t, token), p.registers(t, token)
		for _, g := range []G{first, second, first} {
			p.writes(t, g, "x")
		}
		p.Stored(token)
		if token > 1 {
			_, err := p.Register(t.Context(), token-1)
			Stale(t, p.Package, err, token-1, token)
		}
	}
}

// A fence that is gone lets nobody write, and does not come back by a write. Whoever registers opens it, and its older guards stay shut.
func missingFence[G Guard](t *testing.T, p Place[G]) {
	g := p.registers(t, 5)
	p.Remove()
	for range 2 {
		err := p.Write(t.Context(), g, "x")
		is(t, p.Package, err, fence.ErrStale)
		if !strings.Contains(err.Error(), "register again") {
			t.Fatalf("want advice to register again: %v", err)
		}
		p.has(t, "")
	}
	for _, token := range []lockport.Token{1, 2, 4} {
		older := p.registers(t, token)
		err := p.Write(t.Context(), g, "x")
		is(t, p.Package, err, fence.ErrStale)
		if !strings.Contains(err.Error(), "older") {
			t.Fatalf("the fence went back: %v", err)
		}
		p.writes(t, older, "y")
	}
	p.registers(t, 6)
	p.refuses(t, g, 6)
}

func badInput[G Guard](t *testing.T, p Place[G]) {
	_, err := p.Register(t.Context(), 0)
	is(t, p.Package, err, fence.ErrNoToken)
	m, err := lockport.Open(t.Context(), "memory:", lockport.Logger(nil))
	must(t, err)
	defer func() { _ = m.Close() }()
	l, err := m.Acquire(t.Context(), "x")
	must(t, err)
	_, err = p.RegisterLock(t.Context(), l)
	if err == nil || !strings.Contains(err.Error(), "backend ") {
		t.Fatalf("a lock of another backend: %v", err)
	}
}

// Where the lock is on the same server, its entry counts too, at once; and alone it does not count.
func lockOnTheSameServer[G Guard](t *testing.T, p Place[G]) {
	l, l2 := HandOff(t, p.Locks(), "account "+rand.Text())
	register := func(l *lockport.Lock) G {
		g, err := p.RegisterLock(t.Context(), l)
		must(t, err)
		return g
	}
	g := register(l)
	p.writes(t, g, "held")

	// Handed on inside the process the entry stays, and the hold before is refused all the same.
	g2 := register(l2)
	p.refuses(t, g, g2.Token())
	p.writes(t, g2, "second")
	register(l2) // again

	// Once it is released, it is refused before anybody else has registered.
	must(t, l2.Release(t.Context()))
	is(t, p.Package, p.Write(t.Context(), g2, "late"), lockport.ErrLost, fence.ErrStale)
	_, err := p.RegisterLock(t.Context(), l2)
	is(t, p.Package, err, lockport.ErrLost)
	p.has(t, "second")
	newer := p.registers(t, g2.Token()+1)
	_, err = p.RegisterLock(t.Context(), l2)
	if p.LockFirst {
		is(t, p.Package, err, lockport.ErrLost, fence.ErrStale)
	} else {
		Stale(t, p.Package, err, g2.Token(), newer.Token())
	}
	p.refuses(t, g2, newer.Token())
}

// A write that was sent while the token was the latest, and arrives when it is not any more, does nothing.
func lateWrite[G Guard](t *testing.T, p Place[G]) {
	proxy, err := faultproxy.New(p.Addr)
	must(t, err)
	defer func() { _ = proxy.Close() }()
	old, err := p.At(proxy.Addr())(t.Context(), 5)
	must(t, err)
	p.writes(t, old, "old") // the connection is there
	proxy.Freeze()
	before := proxy.Requests()
	done := make(chan error, 1)
	go func() { done <- p.Write(t.Context(), old, "late") }()
	for deadline := time.Now().Add(patience); proxy.Requests() == before; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("nothing was sent")
		}
	}
	p.registers(t, 6)
	proxy.Restore()
	Stale(t, p.Package, <-done, 5, 6)
	p.has(t, "old")
}

// Race has holders come and write at once: once a newer one has written, none that is older does. register makes a client's Register, write has the store
// append the guard's token, and order returns what it has.
func Race[G Guard](t *testing.T, register func() Registering[G], write func(g G) error, order func() []lockport.Token) {
	t.Helper()
	const holders, each, first = 16, 20, 95 // 99 and 100 are among the tokens
	var wrote [holders]int
	var all sync.WaitGroup
	for i := range holders {
		token, registers := lockport.Token(first+i), register()
		all.Go(func() {
			g, err := registers(t.Context(), token)
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
	var count [holders]int
	last := lockport.Token(0)
	for _, token := range order() {
		if token < last {
			t.Fatalf("a write of %d came after one of %d", token, last)
		}
		last = token
		count[token-first]++
	}
	if count != wrote {
		t.Fatalf("%v writes are there, and %v were not refused", count, wrote)
	}
	if count[holders-1] != each {
		t.Fatal("the latest was refused")
	}
}
