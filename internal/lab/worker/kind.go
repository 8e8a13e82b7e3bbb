// Package worker runs copies of this program as worker processes. Workers carry out orders until their parent kills, freezes or ends them.
//
// A [Kind] of workers answers orders, in lines of JSON. [Run] starts any other program. Both end when this process ends, however it ends. The
// package imports the standard library alone, so that the package conformance can use it.
package worker

import (
	"context"
	"encoding/json"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// Kind is a kind of workers that answer orders. A worker starts with a C and answers each order, an O, with an A. All three are encoded as JSON.
type Kind[C, O, A any] struct {
	// Variable is the environment variable that makes a process such a worker.
	Variable string
	// Line, if not nil, gets each line of a worker's standard output that is no answer. It must not keep the line.
	Line func(line []byte)
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
// once. begin makes the worker. Its context ends when the parent closes the worker's standard input or dies. do carries out an order, concurrently
// with others. end is called once, after the context has ended and every do has returned.
func (k Kind[C, O, A]) Main(begin func(ctx context.Context, config C) (do func(O) (A, error), end func(), err error)) {
	if !k.Is() {
		return
	}
	// Ctrl-C reaches every process of a terminal. The parent decides when the worker ends, so that locks are released.
	signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	ctx, stop := context.WithCancel(context.Background())
	var mu sync.Mutex // guards out
	out := json.NewEncoder(os.Stdout)
	reply := func(id int64, value A, err error) {
		a := answer[A]{ID: id, Answer: value}
		if err != nil {
			a.Err = err.Error()
		}
		mu.Lock()
		defer mu.Unlock()
		_ = out.Encode(a) // fails only if the parent is gone, which the end of standard input tells too
	}
	in := json.NewDecoder(os.Stdin)
	var config C // it may hold a password, and other users can read a process's environment
	var do func(O) (A, error)
	var end func()
	err := in.Decode(&config)
	if err == nil {
		do, end, err = begin(ctx, config)
	}
	var ready A
	if reply(0, ready, err); err != nil {
		os.Exit(1)
	}
	var orders sync.WaitGroup
	for {
		var o order[O]
		if in.Decode(&o) != nil { // the end of standard input
			break
		}
		orders.Go(func() {
			value, err := do(o.Order)
			reply(o.ID, value, err)
		})
	}
	stop()
	orders.Wait()
	end()
	os.Exit(0)
}
