package crew

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// Kind is a kind of workers, which their parent and they themselves know: P is what a worker is started with, O an order, A the answer to it. All three are
// written as JSON.
type Kind[P, O, A any] struct {
	// Variable is that of the environment which tells a process that it is such a worker.
	Variable string
}

// Worker is the inside of a worker process.
type Worker[O, A any] interface {
	// Do carries out an order, several at a time.
	Do(o O) (A, error)
	// Close is called once, when the context of the worker has ended and all orders have returned.
	Close()
}

// order and answer are what goes between the two. The first answer, whose ID is 0, says that the worker has begun.
type order[O any] struct {
	ID    int64
	Order O
}

type answer[A any] struct {
	ID     int64
	Err    string `json:",omitempty"`
	Answer A
}

// WorkerMain is the first line of main, and of TestMain: in a process that was started as a worker of this kind it works and exits, in others it returns at
// once. begin makes the worker; its context ends when the parent wants no more, or is gone.
func (k Kind[P, O, A]) WorkerMain(begin func(ctx context.Context, p P) (Worker[O, A], error)) {
	if os.Getenv(k.Variable) == "" {
		return
	}
	// Ctrl-C goes to all processes of a terminal. The parent says when it is over, by the end of standard input, so that what is held is released.
	signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	ctx, stop := context.WithCancel(context.Background())
	s := &service[O, A]{out: json.NewEncoder(os.Stdout)}
	lines := bufio.NewScanner(os.Stdin)
	p, err := posting[P](lines)
	if err == nil {
		s.worker, err = begin(ctx, p)
	}
	if err != nil {
		s.say(answer[A]{Err: err.Error()})
		os.Exit(1)
	}
	s.say(answer[A]{})
	s.listen(lines)
	stop()
	s.orders.Wait()
	s.worker.Close()
	os.Exit(0)
}

// posting is what a worker is started with: the first line of its standard input, since it may have a password, and an environment is easily shown.
func posting[P any](lines *bufio.Scanner) (p P, err error) {
	if !lines.Scan() {
		return p, errors.New("nobody says what to work on")
	}
	return p, json.Unmarshal(lines.Bytes(), &p)
}

// service is the inside of a worker process, around the worker.
type service[O, A any] struct {
	worker Worker[O, A]
	orders sync.WaitGroup

	mu  sync.Mutex
	out *json.Encoder
}

// say writes an answer. That the parent is gone is noticed by the end of standard input.
func (s *service[O, A]) say(a answer[A]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.out.Encode(a)
}

// listen carries out orders until standard input ends.
func (s *service[O, A]) listen(lines *bufio.Scanner) {
	for lines.Scan() {
		var o order[O]
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			s.say(answer[A]{Err: err.Error()})
			continue
		}
		s.orders.Go(func() {
			a := answer[A]{ID: o.ID}
			var err error
			if a.Answer, err = s.worker.Do(o.Order); err != nil {
				a.Err = err.Error()
			}
			s.say(a)
		})
	}
}
