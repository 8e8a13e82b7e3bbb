package nats

import "sync"

// recentSize is how many names are remembered, far more than are in use at a time.
const recentSize = 4096

// recent remembers a revision of each name that was used lately. The zero value is ready to use. Safe for concurrent use.
type recent struct {
	mu     sync.Mutex
	byName map[string]uint64
}

// put remembers revision for name. If there are too many names, it forgets all others; callers ask the server for a forgotten one.
func (r *recent) put(name string, revision uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byName == nil || len(r.byName) >= recentSize {
		r.byName = make(map[string]uint64)
	}
	r.byName[name] = revision
}

// get returns the revision of name; 0: it is not remembered.
func (r *recent) get(name string) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byName[name]
}
