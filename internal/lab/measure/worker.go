package measure

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/lockport/lockport/conformance/library"
	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/worker"
)

// order is an order to a worker. The worker answers when it has finished.
type order struct {
	Do                 string // see measurer.Do
	Name               string
	Goroutines         int
	Own, Try           bool // loop: a name for each goroutine; single attempts instead of waiting
	Warm, Fewest, Most int  // numbers of repetitions; Most 0: until For has passed
	For, Grace         time.Duration
	Begin              history.Instant
	Settle             bool // usage: collect garbage first
}

// answer is a worker's answer to an order.
type answer struct {
	At     history.Instant
	Took   time.Duration
	Packed []byte // see pack
	Usage  usage
}

var kind = worker.Kind[Config, order, answer]{Variable: "LOCKPORT_MEASURE_WORKER"}

const (
	openTime   = 10 * time.Second // bounds the opening of a library
	grantLimit = 20 * time.Second // bounds the grant of a free or just released lock
)

// WorkerMain must be the first call in main and in TestMain: see [worker.Kind.Main]. open opens the client of a worker.
func WorkerMain(open func(ctx context.Context, c Config) (library.Client, error)) {
	kind.Main(func(ctx context.Context, c Config) (func(order) (answer, error), func(), error) {
		opening, cancel := context.WithTimeout(ctx, openTime)
		defer cancel()
		client, err := open(opening, c)
		m := &measurer{ctx: ctx, config: c, client: client, kept: make(map[string]release)}
		return m.Do, m.Close, err
	})
}

// measurer is the implementation of a worker process.
type measurer struct {
	ctx     context.Context // ends when the parent closes the worker or dies
	config  Config
	client  library.Client
	waiters sync.WaitGroup

	mu   sync.Mutex
	kept map[string]release
	held []release // of the order "hold", without names
}

// Do carries out an order.
func (m *measurer) Do(o order) (answer, error) {
	switch o.Do {
	case "loop": // acquire and release repeatedly: Packed has holds
		return m.loop(o)
	case "handoff": // from a release to the grant of another goroutine: Packed has microseconds
		return m.handOff(o)
	case "acquire": // acquire and keep; At is when Acquire had returned
		return m.acquire(o)
	case "release": // release the kept name; At is when Release was called
		return m.release(o)
	case "hold": // acquire many names and keep them
		return m.hold(o)
	case "wait": // wait for a name until the worker ends
		return m.wait(o)
	case "usage":
		return answer{At: history.Now(), Usage: usageNow(o.Settle)}, nil
	}
	return answer{}, fmt.Errorf("unknown order %q", o.Do)
}

// Close releases all holds.
func (m *measurer) Close() {
	m.waiters.Wait()
	holds := slices.AppendSeq(m.held, maps.Values(m.kept))
	_ = inParallel(len(holds), func(i int) error {
		if holds[i] == nil {
			return nil // not granted
		}
		return holds[i](context.Background())
	})
	_ = m.client.Close()
}

func (m *measurer) acquire(o order) (answer, error) {
	ctx, cancel := context.WithTimeout(m.ctx, o.For)
	defer cancel()
	release, err := m.take(ctx, o.Name, true)
	a := answer{At: history.Now()}
	if err == nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.kept[o.Name] = release
	}
	return a, err
}

func (m *measurer) release(o order) (answer, error) {
	m.mu.Lock()
	release := m.kept[o.Name]
	delete(m.kept, o.Name)
	m.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	a := answer{At: history.Now()}
	return a, release(ctx)
}

func (m *measurer) hold(o order) (answer, error) {
	m.held = make([]release, o.Most)
	return answer{}, inParallel(o.Most, func(i int) (err error) {
		m.held[i], err = m.take(m.ctx, fmt.Sprint(o.Name, "-", i), true)
		return err
	})
}

func (m *measurer) wait(o order) (answer, error) {
	for range o.Goroutines {
		m.waiters.Go(func() {
			if release, err := m.take(m.ctx, o.Name, true); err == nil {
				_ = release(context.Background())
			}
		})
	}
	return answer{}, nil
}

// inParallel calls f with 0 to n-1, in 64 goroutines.
func inParallel(n int, f func(i int) error) error {
	goroutines := make([]struct{}, 64)
	return cmp.Or(worker.AtOnce(goroutines, func(i int, _ struct{}) (err error) {
		for ; i < n && err == nil; i += len(goroutines) {
			err = f(i)
		}
		return err
	})...)
}

// pack encodes lists of a fixed-size T as bytes, one after the other: JSON is too large for hundreds of thousands of holds.
func pack[T any](lists ...[]T) []byte {
	var b []byte
	for _, list := range lists {
		b, _ = binary.Append(b, binary.LittleEndian, list) // cannot fail for a fixed-size T
	}
	return b
}

// unpack decodes the result of pack as one list.
func unpack[T any](b []byte) []T {
	var one T
	list := make([]T, len(b)/binary.Size(one))
	_, _ = binary.Decode(b, binary.LittleEndian, list)
	return list
}

// usage is a worker process's resource usage so far.
type usage struct {
	CPU        time.Duration
	Goroutines int
	Memory     int64 // heap and stacks in use
}

// usageNow returns the usage of this process, after a garbage collection if settled is set.
func usageNow(settled bool) usage {
	if settled {
		runtime.GC()
		runtime.GC() // the second collects objects kept by finalizers and pools
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return usage{cpuTime(), runtime.NumGoroutine(), int64(m.HeapAlloc + m.StackInuse)}
}
