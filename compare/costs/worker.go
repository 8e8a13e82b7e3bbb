package costs

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/faults"
)

// workerVariable tells a process that it is a worker.
const workerVariable = "LOCKPORT_COSTS_WORKER"

// posting is what a worker works on: the first line of its standard input, since the URL may have a password, and an environment is easily shown.
type posting struct {
	URL string
	TTL time.Duration
	// Article is the name of an article's lock that is to be opened instead of the backend's, on the same Redis.
	Article string `json:",omitempty"`
}

// order is what a worker is told to do, as a line of JSON on its standard input. It carries out several at a time, and answers each once, when it is done.
type order struct {
	ID   int64
	Do   task
	Name string `json:",omitempty"`
	// Goroutines is how many clients the worker is, for contention and waiting.
	Goroutines int `json:",omitempty"`
	// Direct has each of them ask the server itself, past the queue that a client of lockport has for a name: as the locks of articles do.
	Direct bool `json:",omitempty"`
	// Most is how often something is done at most, and For for how long.
	Most int           `json:",omitempty"`
	For  time.Duration `json:",omitempty"`
	// Begin is when it is to begin, or after which something must have happened.
	Begin faults.Instant `json:",omitempty"`
}

// task is what an order asks for.
type task string

const (
	doPing    task = "ping"    // bare round trips: Pings
	doCycle   task = "cycle"   // bare round trip, acquire, release: Pings, Acquires, Releases
	doContend task = "contend" // acquire and release in many goroutines; Instants are of holds
	doAcquire task = "acquire" // acquire and keep; At is when Acquire had returned
	doRelease task = "release" // release what was acquired; At is when Release was called
	doWait    task = "wait"    // wait for a name, until the worker ends; answered when all have begun to
	doProbe   task = "probe"   // acquire and release fresh names one after the other; answered at once
	doProbed  task = "probed"  // end that when it has succeeded after Begin; Instants are of successes
)

// answer is what a worker says to an order. Times are microseconds.
type answer struct {
	ID       int64
	Err      string         `json:",omitempty"`
	Question string         `json:",omitempty"`
	Pings    []float64      `json:",omitempty"`
	Acquires []float64      `json:",omitempty"`
	Releases []float64      `json:",omitempty"`
	At       faults.Instant `json:",omitempty"`
	Instants []byte         `json:",omitempty"` // see pack
}

// WorkerMain is the first line of main, and of TestMain: in a process that was started as a worker it works and exits, in others it returns at once.
// The program must import the backends.
func WorkerMain() {
	if os.Getenv(workerVariable) == "" {
		return
	}
	// Ctrl-C goes to all processes of a terminal. The parent says when it is over, by the end of standard input, so that what is held is released.
	signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	ctx, stop := context.WithCancel(context.Background())
	w := &worker{ctx: ctx, out: json.NewEncoder(os.Stdout), locks: make(map[string]*lockport.Lock)}
	lines := bufio.NewScanner(os.Stdin)
	if err := w.open(lines); err != nil {
		w.say(answer{Err: err.Error()})
		os.Exit(1)
	}
	w.say(answer{})
	w.listen(lines)
	stop()
	w.orders.Wait()
	_ = w.client.Close() // releases what is held
	os.Exit(0)
}

// worker is the inside of a worker process.
type worker struct {
	ctx    context.Context // ends when the parent wants no more, or is gone
	client *lockport.Client
	ttl    time.Duration
	orders sync.WaitGroup

	mu    sync.Mutex
	out   *json.Encoder
	locks map[string]*lockport.Lock
	probe *probe
}

func (w *worker) open(lines *bufio.Scanner) error {
	var p posting
	if !lines.Scan() {
		return errors.New("nobody says what to open")
	}
	if err := json.Unmarshal(lines.Bytes(), &p); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(w.ctx, openTime)
	defer cancel()
	var err error
	w.ttl = p.TTL
	if p.Article != "" {
		w.client, err = openArticle(ctx, p)
	} else {
		w.client, err = open(ctx, p.URL, p.TTL)
	}
	return err
}

// openTime bounds the opening of a URL.
const openTime = 10 * time.Second

// open opens what is measured. What a server's settings endanger is not said here: doctor does.
func open(ctx context.Context, url string, ttl time.Duration) (*lockport.Client, error) {
	return lockport.Open(ctx, url, lockport.TTL(ttl), lockport.Label("compare"), lockport.Logger(slog.New(slog.DiscardHandler)))
}

// say writes an answer. That the parent is gone is noticed by the end of standard input.
func (w *worker) say(a answer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.out.Encode(a)
}

// listen carries out orders until standard input ends.
func (w *worker) listen(lines *bufio.Scanner) {
	for lines.Scan() {
		var o order
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			w.say(answer{Err: err.Error()})
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

func (w *worker) do(o order) (answer, error) {
	switch o.Do {
	case doPing:
		return w.ping(o)
	case doCycle:
		return w.cycle(o)
	case doContend:
		return w.contend(o)
	case doAcquire:
		return w.acquire(o)
	case doRelease:
		return w.release(o)
	case doWait:
		return w.wait(o)
	case doProbe:
		return w.beginProbe(o)
	case doProbed:
		return w.endProbe(o)
	}
	return answer{}, fmt.Errorf("unknown order %q", o.Do)
}
