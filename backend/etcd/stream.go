package etcd

import (
	"context"
	"sync"
)

// duplex is a gRPC stream in both directions.
type duplex[Q, R any] interface {
	Send(*Q) error
	Recv() (*R, error)
}

// stream is a duplex whose senders never wait: two goroutines of its own send and receive. It is opened in the background.
type stream[Q, R any] struct {
	cancel context.CancelFunc
	ready  chan struct{} // has an element when there is something in out

	mu  sync.Mutex
	out []*Q
}

// openStream opens a stream until ctx ends or it breaks. got is called with everything that is received, by one goroutine; over once,
// after the last got, with why it ended.
func openStream[Q, R any, D duplex[Q, R]](ctx context.Context, running *sync.WaitGroup, open func(context.Context) (D, error),
	got func(*stream[Q, R], *R), over func(*stream[Q, R], error)) *stream[Q, R] {
	s := &stream[Q, R]{ready: make(chan struct{}, 1)}
	ctx, s.cancel = context.WithCancel(ctx)
	running.Go(func() {
		defer s.cancel()
		both, err := open(ctx)
		if err == nil {
			var sender sync.WaitGroup
			sender.Go(func() { s.send(ctx, both) })
			for err == nil {
				var reply *R
				if reply, err = both.Recv(); err == nil {
					got(s, reply)
				}
			}
			s.cancel()
			sender.Wait()
		}
		over(s, err)
	})
	return s
}

// send sends what is put into out, in order, until ctx ends. That the stream is broken is the receiver's business.
func (s *stream[Q, R]) send(ctx context.Context, both duplex[Q, R]) {
	for {
		s.mu.Lock()
		out := s.out
		s.out = nil
		s.mu.Unlock()
		for _, q := range out {
			if both.Send(q) != nil {
				return
			}
		}
		select {
		case <-s.ready:
		case <-ctx.Done():
			return
		}
	}
}

// put has q sent.
func (s *stream[Q, R]) put(q *Q) {
	s.mu.Lock()
	s.out = append(s.out, q)
	s.mu.Unlock()
	select {
	case s.ready <- struct{}{}:
	default:
	}
}
