// Package recent remembers what a backend last saw of each name that it used lately.
package recent

import "sync"

// size is how many names are remembered, far more than are in use at a time.
const size = 4096

// Values maps names to values. The zero Values is ready to use. Safe for concurrent use.
type Values[V any] struct {
	mu     sync.Mutex
	byName map[string]V
}

// Put remembers v for name. If there are too many names, it forgets all others; callers ask the server for a forgotten value.
func (r *Values[V]) Put(name string, v V) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byName == nil || len(r.byName) >= size {
		r.byName = make(map[string]V)
	}
	r.byName[name] = v
}

// Get returns the value of name. ok: it is remembered.
func (r *Values[V]) Get(name string) (v V, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v, ok = r.byName[name]
	return v, ok
}
