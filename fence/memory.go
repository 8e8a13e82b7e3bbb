package fence

import (
	"context"
	"fmt"
	"sync"

	"github.com/lockport/lockport"
)

// Memory is a fence in the memory of the process that has the resource: a server that keeps its data itself, or through which every write goes.
// The zero value is ready. Safe for concurrent use; must not be copied.
//
// It forgets with its process. A server that starts anew on data that it kept believes the first token that comes, which may be an old one:
// where that matters, keep the token beside the data, as the packages below this one do.
type Memory struct {
	mu    sync.Mutex
	gates map[string]*gate
}

// gate is what is kept of a name.
type gate struct {
	open chan struct{} // has an element while nobody is inside
	seen lockport.Token
	used int // by how many calls, guarded by Memory.mu
}

// Register says that token's holder is the latest of name. A holder registers before it reads what name protects, or reads inside of Do. It waits for a
// Do of the same name that has begun, until ctx ends. The error matches ErrStale if a greater token was seen, ErrNoToken if token is 0,
// or is ctx's.
func (m *Memory) Register(ctx context.Context, name string, token lockport.Token) error {
	return m.Do(ctx, name, token, func() error { return nil })
}

// Do registers token as Register does, and then calls fn, which reads and writes what name protects. While it runs no other token is registered for name, and no
// other fn runs. An error of fn's is returned as it is. If the error is one of Register's, fn was not called. fn must not call Do or Register for the
// same name, which would wait for itself.
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

// Forget frees the memory kept for name, some hundred bytes: call it when the data that name protects is gone, and no holder is left. An old
// token would be believed afterwards. It does nothing while a call with that name is under way.
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

// leave ends use. What has seen no token need not be kept.
func (m *Memory) leave(name string, g *gate) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if g.used--; g.used == 0 && g.seen == 0 {
		delete(m.gates, name)
	}
}
