package lib

import "sync"

// free are connections that nobody uses at the moment. Each hold has one to itself, so that there are as many as there were holds and waiters at a time.
// Safe for concurrent use.
type free[T any] struct {
	mu   sync.Mutex
	idle []T
	all  []T
}

// take returns a free connection, or else a new one.
func (f *free[T]) take(open func() (T, error)) (T, error) {
	f.mu.Lock()
	if n := len(f.idle); n > 0 {
		t := f.idle[n-1]
		f.idle = f.idle[:n-1]
		f.mu.Unlock()
		return t, nil
	}
	f.mu.Unlock()
	t, err := open()
	if err == nil {
		f.mu.Lock()
		f.all = append(f.all, t)
		f.mu.Unlock()
	}
	return t, err
}

func (f *free[T]) give(t T) {
	f.mu.Lock()
	f.idle = append(f.idle, t)
	f.mu.Unlock()
}
