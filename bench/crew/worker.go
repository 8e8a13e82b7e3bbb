package crew

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/lockport/lockport/bench/lib"
)

// variable tells a process that it is a worker.
const variable = "LOCKPORT_BENCH_WORKER"

// Main is the first line of main, and of TestMain: in a process that was started as a worker it works and exits, in others it returns at once.
func Main() {
	if os.Getenv(variable) == "" {
		return
	}
	// Ctrl-C goes to all processes of a terminal. The parent says when it is over, by the end of standard input.
	signal.Ignore(os.Interrupt, syscall.SIGTERM)
	ctx, stop := context.WithCancel(context.Background())
	w := &worker{ctx: ctx, out: json.NewEncoder(os.Stdout), kept: make(map[string]lib.Hold)}
	lines := bufio.NewScanner(os.Stdin)
	if err := w.open(lines); err != nil {
		w.say(Answer{Err: err.Error()})
		os.Exit(1)
	}
	w.say(Answer{})
	w.listen(lines)
	stop()
	w.orders.Wait()
	w.releaseAll()
	_ = w.locker.Close()
	os.Exit(0)
}

// worker is the inside of a worker process.
type worker struct {
	ctx    context.Context // ends when the parent wants no more, or is gone
	locker lib.Locker
	orders sync.WaitGroup

	mu   sync.Mutex
	out  *json.Encoder
	kept map[string]lib.Hold
}

// openTime bounds the opening of a library.
const openTime = 10 * time.Second

func (w *worker) open(lines *bufio.Scanner) error {
	var p Posting
	if !lines.Scan() {
		return errors.New("nobody says what to open")
	}
	if err := json.Unmarshal(lines.Bytes(), &p); err != nil {
		return err
	}
	l, err := lib.Find(p.Family, p.Library)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(w.ctx, openTime)
	defer cancel()
	w.locker, err = l.Open(ctx, p.Config)
	return err
}

// say writes an answer. That the parent is gone is noticed by the end of standard input.
func (w *worker) say(a Answer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.out.Encode(a)
}

// listen carries out orders until standard input ends.
func (w *worker) listen(lines *bufio.Scanner) {
	for lines.Scan() {
		var o Order
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			w.say(Answer{Err: err.Error()})
			continue
		}
		w.orders.Go(func() {
			a, err := w.do(o)
			a.ID = o.ID
			if err != nil {
				a.Err = err.Error()
			}
			w.say(a)
		})
	}
}

func (w *worker) do(o Order) (Answer, error) {
	switch o.Do {
	case Cycle:
		return w.cycle(o)
	case Contend:
		return w.contend(o)
	case HandOff:
		return w.handOff(o)
	case Acquire:
		return w.acquire(o)
	case Release:
		return w.release(o)
	case Hold:
		return w.hold(o)
	case Wait:
		return w.wait(o)
	case Usage:
		return w.usage(o)
	}
	return Answer{}, fmt.Errorf("unknown order %q", o.Do)
}

// keep remembers a hold until it is released.
func (w *worker) keep(name string, h lib.Hold) {
	w.mu.Lock()
	w.kept[name] = h
	w.mu.Unlock()
}
