package conformance

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
)

// workerMainCalled says that a process that is started from this binary can be a worker.
var workerMainCalled atomic.Bool

func isWorker() bool { return os.Getenv(workerVariable) != "" }

// WorkerMain is the first line of TestMain, or of main in a command that calls Run. Where the suite started this process
// as a worker, it works, with a backend that it makes with open, and exits; otherwise it returns at once. Without it the
// cases that need other processes are not run.
func WorkerMain(open func(ctx context.Context, target string) (driver.Backend, error)) {
	if !isWorker() {
		workerMainCalled.Store(true)
		return
	}
	w := &worker{out: json.NewEncoder(os.Stdout), holds: make(map[int]any)}
	if err := w.open(open); err != nil {
		w.say(answer{Err: err.Error()})
		os.Exit(1)
	}
	w.say(answer{})
	w.listen()
	// The end of standard input: the parent is gone or wants us gone. Nothing is given up in order: a worker that
	// should release does so when it is told to.
	os.Exit(0)
}

// worker is the inside of a worker process.
type worker struct {
	backend driver.Backend
	client  *lockport.Client
	ttl     time.Duration
	party   string

	openAgain func() (driver.Backend, error) // a backend like the worker's own

	mu    sync.Mutex
	out   *json.Encoder
	holds map[int]any // *lockport.Lock or driver.Lease
}

func (w *worker) open(open func(ctx context.Context, target string) (driver.Backend, error)) error {
	ttl, err := time.ParseDuration(os.Getenv(ttlVariable))
	if err != nil {
		return fmt.Errorf("%s: %w", ttlVariable, err)
	}
	w.ttl, w.party = ttl, newPartyName()
	w.openAgain = func() (driver.Backend, error) { return open(context.Background(), os.Getenv(targetVariable)) }
	if w.backend, err = w.openAgain(); err != nil {
		return err
	}
	w.client, err = lockport.New(w.backend, lockport.TTL(ttl), lockport.Logger(slog.New(slog.DiscardHandler)))
	return err
}

func (w *worker) say(a answer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.out.Encode(a) // a parent that is gone is noticed by its end of standard input
}

// listen carries out orders until standard input ends.
func (w *worker) listen() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var o order
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			w.say(answer{Err: err.Error()})
			continue
		}
		if o.Op == opValid { // at once, as the first thing that a process does when it goes on
			w.say(w.valid(o))
			continue
		}
		go func() { w.say(w.do(o)) }()
	}
}

// do carries out one order.
func (w *worker) do(o order) answer {
	a := answer{ID: o.ID}
	ctx := context.Background()
	if o.Wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.Wait)
		defer cancel()
	}
	var err error
	switch o.Op {
	case opClaim:
		var lease driver.Lease
		lease, err = w.backend.TryAcquire(ctx, driver.Request{Name: o.Name, Owner: randomHex(16) + ":" + w.party, TTL: w.ttl})
		if err == nil {
			a.Hold, a.Token = w.keep(lease), lease.Grant().Token
		}
	case opAcquire:
		var lock *lockport.Lock
		lock, err = w.client.Acquire(ctx, o.Name)
		if err == nil {
			token, _ := lock.Token()
			a.Hold, a.Token = w.keep(lock), uint64(token)
		}
	case opRelease:
		switch hold := w.hold(o.Hold).(type) {
		case *lockport.Lock:
			err = hold.Release(ctx)
		case driver.Lease:
			err = hold.Release(ctx)
		default:
			err = fmt.Errorf("no hold %d", o.Hold)
		}
	case opContend:
		err = w.contend(ctx, o)
	case opCrowd:
		err = w.crowd(ctx, o.Crowd)
	default:
		err = fmt.Errorf("unknown order %q", o.Op)
	}
	if err != nil {
		a.Err, a.Lost = err.Error(), errors.Is(err, driver.ErrLost)
	}
	return a
}

func (w *worker) valid(o order) answer {
	lock, ok := w.hold(o.Hold).(*lockport.Lock)
	if !ok {
		return answer{ID: o.ID, Err: fmt.Sprintf("no hold %d", o.Hold)}
	}
	a := answer{ID: o.ID, Valid: lock.Valid()}
	if err := lock.Err(); err != nil {
		a.Err, a.Lost = err.Error(), errors.Is(err, lockport.ErrLost)
	}
	return a
}

func (w *worker) keep(hold any) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	id := len(w.holds) + 1
	w.holds[id] = hold
	return id
}

func (w *worker) hold(id int) any {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.holds[id]
}

// contend takes part in a race for a name: each round adds one to a counter in a file, by reading and writing it, which
// loses counts if two do so at once, and writes down in a journal that all share when it begins and ends.
func (w *worker) contend(ctx context.Context, o order) error {
	journal, err := os.OpenFile(o.Journal, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer journal.Close()
	for range o.Rounds {
		lock, err := w.client.Acquire(ctx, o.Name)
		if err != nil {
			return err
		}
		token, _ := lock.Token()
		if err := count(journal, o.Counter, uint64(token)); err != nil {
			return err
		}
		if !lock.Valid() {
			return fmt.Errorf("a hold was lost on a server that is well: %w", lock.Err())
		}
		if err := lock.Release(ctx); err != nil {
			return err
		}
	}
	return nil
}

// count is what the lock protects.
func count(journal *os.File, counter string, token uint64) error {
	me := strconv.Itoa(os.Getpid())
	note := func(what string) error {
		_, err := fmt.Fprintf(journal, "%s %s %d\n", what, me, token) // one write: the kernel appends it whole
		return err
	}
	if err := note("in"); err != nil {
		return err
	}
	text, err := os.ReadFile(counter)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	n, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	if err := os.WriteFile(counter, []byte(strconv.Itoa(n+1)), 0o600); err != nil {
		return err
	}
	return note("out")
}
