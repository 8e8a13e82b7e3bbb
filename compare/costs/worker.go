package costs

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/faults"
	crew "github.com/lockport/lockport/internal/lab/worker"
)

// posting is what a worker works on.
type posting struct {
	URL string
	TTL time.Duration
	// Article is the name of an article's lock that is to be opened instead of the backend's, on the same Redis.
	Article string `json:",omitempty"`
	// Pings says that the worker is to make bare round trips too.
	Pings bool `json:",omitempty"`
}

// order is what a worker is told to do. It answers when it is done.
type order struct {
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
	Question string         `json:",omitempty"`
	Pings    []float64      `json:",omitempty"`
	Acquires []float64      `json:",omitempty"`
	Releases []float64      `json:",omitempty"`
	At       faults.Instant `json:",omitempty"`
	Instants []byte         `json:",omitempty"` // see crew.Pack
}

// clerk is a client's process as its parent sees it, and team are several.
type (
	clerk = crew.Handle[order, answer]
	team  = crew.Group[order, answer]
)

// kind is the kind of workers that clients are.
var kind = crew.Kind[posting, order, answer]{Variable: "LOCKPORT_COSTS_WORKER"}

// WorkerMain is the first line of main, and of TestMain: in a process that was started as a worker it works and exits, in others it returns at once.
// The program must import the backends.
func WorkerMain() { kind.Main(begin) }

// worker is the inside of a worker process.
type worker struct {
	ctx        context.Context // ends when the parent wants no more, or is gone
	client     *lockport.Client
	ttl        time.Duration
	pinger     *pinger        // may be nil
	background sync.WaitGroup // what goes on after an order was answered

	mu    sync.Mutex
	locks map[string]*lockport.Lock
	probe *probe
}

func begin(ctx context.Context, p posting) (crew.Worker[order, answer], error) {
	w := &worker{ctx: ctx, ttl: p.TTL, locks: make(map[string]*lockport.Lock)}
	ctx, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	var err error
	if p.Article != "" {
		w.client, err = openArticle(ctx, p)
	} else {
		w.client, err = open(ctx, p.URL, p.TTL)
	}
	if err == nil && p.Pings {
		w.pinger, err = openPinger(ctx, p.URL)
	}
	return w, err
}

// Close releases what is held.
func (w *worker) Close() {
	w.background.Wait()
	if w.pinger != nil {
		w.pinger.close()
	}
	_ = w.client.Close()
}

// openTime bounds the opening of a URL.
const openTime = 10 * time.Second

// open opens what is measured. What a server's settings endanger is not said here: doctor does.
func open(ctx context.Context, url string, ttl time.Duration) (*lockport.Client, error) {
	return lockport.Open(ctx, url, lockport.TTL(ttl), lockport.Label("compare"), lockport.Logger(slog.New(slog.DiscardHandler)))
}

// Do carries out an order.
func (w *worker) Do(o order) (answer, error) {
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
