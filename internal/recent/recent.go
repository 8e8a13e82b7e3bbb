// Package recent remembers what a backend saw last of each of the names that it used lately.
package recent

import "sync"

// size is how many names are remembered. It is far above what is in use at a time.
const size = 4096

// Values has a value for each name. The zero Values is ready to use. Safe for concurrent use.
type Values[V any] struct {
	mu     sync.Mutex
	byName map[string]V
}

// Put remembers v for name, and forgets all others where they are many: what is not remembered has to be asked for.
func (r *Values[V]) Put(name string, v V) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byName == nil || len(r.byName) >= size {
		r.byName = make(map[string]V)
	}
	r.byName[name] = v
}

// Get is the value of name; ok: it is remembered.
func (r *Values[V]) Get(name string) (v V, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v, ok = r.byName[name]
	return v, ok
}
