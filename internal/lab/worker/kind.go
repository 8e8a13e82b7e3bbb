package worker

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

// Kind is a kind of workers that answer orders. A worker starts with a C and answers each order, an O, with an A. All three are encoded as JSON.
type Kind[C, O, A any] struct {
	// Variable is the environment variable that makes a process such a worker.
	Variable string
	// Line, if not nil, gets each line of a worker's standard output that is no answer: the worker's own output, or a library's. It must not keep
	// the line.
	Line func(line []byte)
}

// Worker is the implementation inside a worker process.
type Worker[O, A any] interface {
	// Do carries out an order. It is called concurrently.
	Do(o O) (A, error)
	// Close is called once, after the worker's context has ended and every Do has returned.
	Close()
}

// order and answer are the lines between parent and worker. The first answer has the ID 0 and says that the worker is ready.
type order[O any] struct {
	ID    int64
	Order O
}

type answer[A any] struct {
	ID     int64
	Err    string `json:",omitempty"`
	Answer A
}

// Is reports whether this process was started as a worker of this kind.
func (k Kind[C, O, A]) Is() bool { return os.Getenv(k.Variable) != "" }

// Main must be the first call in main and in TestMain. In a worker of this kind it serves orders and exits; in any other process it returns at
// once. begin makes the worker. Its context ends when the parent closes the worker's standard input or dies.
func (k Kind[C, O, A]) Main(begin func(ctx context.Context, config C) (Worker[O, A], error)) {
	if !k.Is() {
		return
	}
	// Ctrl-C reaches every process of a terminal. The parent decides when the worker ends, so that locks are released.
	signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	ctx, stop := context.WithCancel(context.Background())
	s := &service[O, A]{out: json.NewEncoder(os.Stdout)}
	lines := bufio.NewReader(os.Stdin)
	config, err := readConfig[C](lines)
	if err == nil {
		s.worker, err = begin(ctx, config)
	}
	if err != nil {
		s.reply(answer[A]{Err: err.Error()})
		os.Exit(1)
	}
	s.reply(answer[A]{})
	s.serve(lines)
	stop()
	s.orders.Wait()
	s.worker.Close()
	os.Exit(0)
}

// readConfig reads the worker's configuration from the first line of standard input. It may hold a password, and other users can read a process's
// environment.
func readConfig[C any](lines *bufio.Reader) (config C, err error) {
	line, err := lines.ReadBytes('\n')
	if err != nil {
		return config, errors.New("the parent sent no configuration")
	}
	return config, json.Unmarshal(line, &config)
}

// service carries out orders in a worker process.
type service[O, A any] struct {
	worker Worker[O, A]
	orders sync.WaitGroup

	mu  sync.Mutex
	out *json.Encoder
}

// reply writes an answer. An error means that the parent is gone; serve finds that out too.
func (s *service[O, A]) reply(a answer[A]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.out.Encode(a)
}

// serve carries out orders until standard input ends.
func (s *service[O, A]) serve(lines *bufio.Reader) {
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var o order[O]
		if err := json.Unmarshal(line, &o); err != nil {
			s.reply(answer[A]{Err: err.Error()})
			continue
		}
		s.orders.Go(func() {
			a := answer[A]{ID: o.ID}
			var err error
			if a.Answer, err = s.worker.Do(o.Order); err != nil {
				a.Err = err.Error()
			}
			s.reply(a)
		})
	}
}
