package fence

import (
	"context"
	"fmt"
	"sync"

	"github.com/lockport/lockport"
)

// Memory is a fence in the memory of the process that owns the resource: a server that keeps its own data, or that every write goes through.
// The zero value is ready. Safe for concurrent use; must not be copied.
//
// Its contents end with the process. After a restart on stored data it trusts the first token that it sees, which may be an old one. If that
// matters, store the token with the data, as the packages below this one do.
type Memory struct {
	mu    sync.Mutex
	gates map[string]*gate
}

// gate is the state of one name.
type gate struct {
	open chan struct{} // has an element while no call is inside
	seen lockport.Token
	used int // number of calls, guarded by Memory.mu
}

// Register makes token's holder the latest of name. A holder registers before it reads what name protects, or reads inside Do. Register waits,
// until ctx ends, for a running Do of the same name. The error matches ErrStale if a greater token was seen, ErrNoToken if token is 0, or
// ctx's error.
func (m *Memory) Register(ctx context.Context, name string, token lockport.Token) error {
	return m.Do(ctx, name, token, func() error { return nil })
}

// Do registers token as Register does, then calls fn, which reads and writes what name protects. While fn runs, no other token is registered
// for name and no other fn runs. Do returns fn's error unchanged. If the error is one of Register's, fn was not called. fn must not call Do or
// Register for the same name: that would deadlock.
func (m *Memory) Do(ctx context.Context, name string, token lockport.Token, fn func() error) error {
	g := m.use(name)
	defer m.leave(name, g)
	select {
	case <-g.open:
		defer func() { g.open <- struct{}{} }()
	case <-ctx.Done():
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("fence: %.80q: nothing was registered or written in time: %w", name, err)
	}
	if err := Check(name, token, g.seen); err != nil {
		return fmt.Errorf("fence: %w", err)
	}
	g.seen = token
	return fn()
}

// Forget frees the memory kept for name, some hundred bytes. Call it when the protected data is gone and no holder is left: afterwards, the fence
// would trust an old token. It does nothing while a call with that name is running.
func (m *Memory) Forget(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if g := m.gates[name]; g != nil && g.used == 0 {
		delete(m.gates, name)
	}
}

func (m *Memory) use(name string) *gate {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gates == nil {
		m.gates = make(map[string]*gate)
	}
	g := m.gates[name]
	if g == nil {
		g = &gate{open: make(chan struct{}, 1)}
		g.open <- struct{}{}
		m.gates[name] = g
	}
	g.used++
	return g
}

// leave ends use. It drops a gate that has seen no token.
func (m *Memory) leave(name string, g *gate) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if g.used--; g.used == 0 && g.seen == 0 {
		delete(m.gates, name)
	}
}
