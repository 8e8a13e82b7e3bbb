package lib

import "sync"

// free are connections, or sessions, that nobody uses at the moment. Each hold has one to itself, so that there are as many as there were holds and
// waiters at a time; or, where slots is not nil, as many as it has room for, for which others wait. Safe for concurrent use.
type free[T any] struct {
	slots chan struct{}

	mu   sync.Mutex
	idle []T
	all  []T
}

// take is one of those, or else a new one.
func (f *free[T]) take(open func() (T, error)) (T, error) {
	if f.slots != nil {
		f.slots <- struct{}{}
	}
	f.mu.Lock()
	if n := len(f.idle); n > 0 {
		t := f.idle[n-1]
		f.idle = f.idle[:n-1]
		f.mu.Unlock()
		return t, nil
	}
	f.mu.Unlock()
	t, err := open()
	if err != nil {
		f.leave()
		return t, err
	}
	f.mu.Lock()
	f.all = append(f.all, t)
	f.mu.Unlock()
	return t, nil
}

func (f *free[T]) give(t T) {
	f.mu.Lock()
	f.idle = append(f.idle, t)
	f.mu.Unlock()
	f.leave()
}

// leave makes room for another one.
func (f *free[T]) leave() {
	if f.slots != nil {
		<-f.slots
	}
}
