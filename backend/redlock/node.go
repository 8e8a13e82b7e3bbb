package redlock

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/redisscript"
)

// node is one server.
type node struct {
	client goredis.UniversalClient
	addr   string
	pipe   *redisscript.Pipe

	mu    sync.Mutex
	lines map[string][]func() // by name: requests that wait for the one that is under way
	owed  int                 // requests in order that have no answer
	since time.Time           // since when none has come
	why   string              // why it rests; "": it does not
	rests time.Time           // until when it is not asked
}

// A node that cannot be reached, or does not answer in time, rests: it is not asked for this long, and then by one request at a time. One that owes maxOwed
// answers and has given none for silence does not answer in time either.
const (
	rest    = 200 * time.Millisecond
	maxOwed = 256
	silence = 100 * time.Millisecond
)

// inOrder calls f, on another goroutine, once the node has answered, or had its time for, all that it was asked for name before: a claim does not overtake
// the release of the claim before it, nor a release its own claim.
func (n *node) inOrder(name string, f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.owed++; n.owed == 1 {
		n.since = time.Now()
	}
	line, busy := n.lines[name]
	if busy {
		n.lines[name] = append(line, f)
		return
	}
	n.lines[name] = nil
	go n.serve(name, f)
}

// serve calls f, and then those that have come meanwhile.
func (n *node) serve(name string, f func()) {
	for f != nil {
		f()
		f = n.next(name)
	}
}

func (n *node) next(name string) (f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.owed--
	line := n.lines[name]
	if len(line) == 0 {
		delete(n.lines, name)
		return nil
	}
	f, n.lines[name] = line[0], line[1:]
	return f
}

// answered is when the node last answered, or was asked after it had answered everything.
func (n *node) answered() time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.since
}

// settle waits until the node has answered what it was asked in order, or ctx ends.
func (n *node) settle(ctx context.Context) {
	n.mu.Lock()
	names := slices.Collect(maps.Keys(n.lines))
	n.mu.Unlock()
	for _, name := range names {
		done := make(chan struct{})
		n.inOrder(name, func() { close(done) })
		select {
		case <-done:
		case <-ctx.Done():
			return
		}
	}
}

// run runs script on the node, which has timeout to answer, unless it rests. The reply's error is classified: see certain.
func (n *node) run(ctx context.Context, timeout time.Duration, script *redisscript.Script, keys []string, argv ...any) redisscript.Reply {
	if err := n.admit(); err != nil {
		return redisscript.Reply{Err: err}
	}
	return n.runAdmitted(ctx, timeout, script, keys, argv...)
}

// runAdmitted is run after admit.
func (n *node) runAdmitted(ctx context.Context, timeout time.Duration, script *redisscript.Script, keys []string, argv ...any) redisscript.Reply {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	r := n.pipe.Run(limited, script, script.Call(keys, argv...))
	late := r.Err != nil && limited.Err() != nil && ctx.Err() == nil
	if late {
		class := driver.ErrUnknown
		if certain(r.Err) {
			class = driver.ErrUnavailable
		}
		r.Err = fmt.Errorf("%w: %s", class, noAnswer)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case r.Err == nil || errors.Is(r.Err, driver.ErrRefused):
		n.since, n.why = time.Now(), ""
	case late || errors.Is(r.Err, driver.ErrUnavailable) && ctx.Err() == nil: // else it is of a connection, or of the caller
		n.why, n.rests = reason(r.Err), time.Now().Add(rest)
	}
	return r
}

// admit says why the node is not to be asked now; nil: it is.
func (n *node) admit() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	switch {
	case n.why == "" && n.owed >= maxOwed && now.Sub(n.since) >= silence:
		n.why, n.rests = noAnswer, now.Add(rest)
	case n.why == "":
		return nil
	case !now.Before(n.rests):
		n.rests = now.Add(rest)
		return nil
	}
	return fmt.Errorf("%w: %s", driver.ErrUnavailable, n.why)
}

// certain says that what failed with err had no effect, and will have none.
func certain(err error) bool {
	return errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrRefused)
}

// askAll runs script on every node and waits until all have answered, or their time is over.
func (b *Backend) askAll(ctx context.Context, script *redisscript.Script, keys []string, argv ...any) ([]redisscript.Reply, error) {
	replies, errs := make([]redisscript.Reply, len(b.nodes)), make([]error, len(b.nodes))
	var all sync.WaitGroup
	for i, n := range b.nodes {
		all.Go(func() {
			replies[i] = n.run(ctx, maxNodeTimeout, script, keys, argv...)
			errs[i] = replies[i].Err
		})
	}
	all.Wait()
	if ctx.Err() != nil {
		return nil, interrupted(ctx.Err())
	}
	return replies, b.majority(errs)
}

// majority fails if fewer than a majority of the nodes serve. errs has the error of each.
func (b *Backend) majority(errs []error) error {
	failed, refused := 0, 0
	for _, err := range errs {
		if err != nil {
			failed++
		}
		if errors.Is(err, driver.ErrRefused) {
			refused++
		}
	}
	switch {
	case len(errs)-failed >= b.quorum:
		return nil
	case refused >= b.quorum:
		return fmt.Errorf("%w: %s", driver.ErrRefused, b.missing(errs))
	}
	return fmt.Errorf("%w: %s", driver.ErrUnavailable, b.missing(errs))
}

// missing says that too few nodes serve, and why.
func (b *Backend) missing(errs []error) string {
	failed, why := b.together(errs)
	return fmt.Sprintf("%d of %d nodes do not serve, and %d are needed: %s", failed, len(b.nodes), b.quorum, why)
}

// together names the nodes that fail for one reason together.
func (b *Backend) together(errs []error) (failed int, why string) {
	var reasons []string
	nodes := make(map[string][]string)
	for i, err := range errs {
		if err == nil {
			continue
		}
		failed++
		why := reason(err)
		if nodes[why] == nil {
			reasons = append(reasons, why)
		}
		nodes[why] = append(nodes[why], b.nodes[i].addr)
	}
	for i, why := range reasons {
		reasons[i] = strings.Join(nodes[why], ", ") + ": " + why
	}
	return failed, strings.Join(reasons, "; ")
}

const noAnswer = "no answer in time"

var errSilent = fmt.Errorf("%w: %s", driver.ErrUnknown, noAnswer)

// reason puts an error of a node into few words, without its address and its class.
func reason(err error) string {
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" && dial.Err != nil { // whose text repeats the address
		return fmt.Sprintf("cannot be reached (%v)", dial.Err)
	}
	text := err.Error()
	for _, class := range []error{driver.ErrUnavailable, driver.ErrRefused, driver.ErrUnknown} {
		text = strings.TrimPrefix(text, class.Error()+": ")
	}
	return text
}

// interrupted is the error of a call whose context ended with cause.
func interrupted(cause error) error {
	return fmt.Errorf("%w: waiting for the nodes: %w", driver.ErrUnknown, cause)
}
