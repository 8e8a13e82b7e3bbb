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

	mu       sync.Mutex
	last     map[string]chan struct{} // by name: closed when the latest request in order has its answer
	owed     int                      // requests in order that have none
	since    time.Time                // since when it has answered none of them
	failures int                      // in a row
	why      string                   // the latest one
	rests    time.Time                // until when it is not asked
	probing  bool                     // a request finds out whether it has come back
}

// A node that cannot be reached, or does not answer in time, rests: it is not asked for firstRest, and then by one request; after each failure in a
// row it rests for twice as long, up to maxRest. One that owes maxOwed answers and has given none for silence does not answer in time either.
const (
	firstRest = 20 * time.Millisecond
	maxRest   = time.Second
	maxOwed   = 256
	silence   = 100 * time.Millisecond
)

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
	r := n.pipe.Run(limited, script, script.Call(keys, argv...), false)
	if r.Err != nil && limited.Err() != nil && ctx.Err() == nil {
		class := driver.ErrUnknown
		if certain(r.Err) {
			class = driver.ErrUnavailable
		}
		r.Err = fmt.Errorf("%w: %s", class, noAnswer)
		n.end(r.Err, true)
	} else {
		n.end(r.Err, errors.Is(r.Err, driver.ErrUnavailable) && ctx.Err() == nil)
	}
	return r
}

// inOrder calls f on a goroutine of its own once the node has answered, or had its time for, all that it was asked for name in order: a claim does not
// overtake the release of the claim before it, nor a release its own claim.
func (n *node) inOrder(name string, f func()) {
	done := make(chan struct{})
	n.mu.Lock()
	before := n.last[name]
	n.last[name] = done
	if n.owed++; n.owed == 1 {
		n.since = time.Now()
	}
	n.mu.Unlock()
	go func() {
		if before != nil {
			<-before
		}
		f()
		n.mu.Lock()
		n.owed--
		n.mu.Unlock()
		n.over(name, done)
		close(done)
	}()
}

// settle waits until the node has answered what it was asked in order, or ctx ends.
func (n *node) settle(ctx context.Context) {
	n.mu.Lock()
	last := slices.Collect(maps.Values(n.last))
	n.mu.Unlock()
	for _, done := range last {
		select {
		case <-done:
		case <-ctx.Done():
			return
		}
	}
}

// occupy has what comes for name in order wait until over, unless something is under way.
func (n *node) occupy(name string, done chan struct{}) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.last[name] != nil {
		return false
	}
	n.last[name] = done
	return true
}

// over says that nothing has to wait for done any more, which is about to be closed.
func (n *node) over(name string, done chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.last[name] == done {
		delete(n.last, name)
	}
}

// admit says why the node is not to be asked now; nil: it is.
func (n *node) admit() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	if n.failures == 0 && n.owed >= maxOwed && now.Sub(n.since) >= silence {
		n.failed(noAnswer)
	}
	if n.failures == 0 {
		return nil
	}
	if now.Before(n.rests) {
		return fmt.Errorf("%w: %s", driver.ErrUnavailable, n.why)
	}
	n.probing, n.rests = true, now.Add(maxRest)
	return nil
}

// end notes the outcome of a request. away says that it failed because the node did; other errors are of a request, or of a connection.
func (n *node) end(err error, away bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case err == nil || isRefused(err):
		n.since, n.failures = time.Now(), 0
	case n.probing || away && n.failures == 0:
		n.failed(reason(err))
	}
	n.probing = false
}

// failed has the node rest. The mutex is held.
func (n *node) failed(why string) {
	n.why, n.rests = why, time.Now().Add(min(firstRest<<min(n.failures, 10), maxRest))
	n.failures++
}

// certain says that what failed with err had no effect, and will have none.
func certain(err error) bool {
	return errors.Is(err, driver.ErrUnavailable) || isRefused(err)
}

func isRefused(err error) bool { return errors.Is(err, driver.ErrRefused) }

// askAll runs script on every node and waits until all have answered, or their time is over.
func (b *Backend) askAll(ctx context.Context, script *redisscript.Script, keys []string, argv ...any) ([]redisscript.Reply, error) {
	replies := make([]redisscript.Reply, len(b.nodes))
	var all sync.WaitGroup
	for i, n := range b.nodes {
		all.Go(func() { replies[i] = n.run(ctx, maxNodeTimeout, script, keys, argv...) })
	}
	all.Wait()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%w: waiting for the nodes: %w", driver.ErrUnknown, ctx.Err())
	}
	return replies, b.majority(replies)
}

// majority fails if fewer than a majority have answered.
func (b *Backend) majority(replies []redisscript.Reply) error {
	var why []failure
	class, refused := driver.ErrUnavailable, 0
	for i, r := range replies {
		if r.Err != nil {
			why = append(why, b.nodes[i].failure(r.Err))
		}
		if isRefused(r.Err) {
			refused++
		}
	}
	if len(b.nodes)-len(why) >= b.quorum {
		return nil
	}
	if refused >= b.quorum {
		class = driver.ErrRefused
	}
	return fmt.Errorf("%w: %s", class, b.missing(why))
}

// failure is why a node does not serve.
type failure struct{ addr, why string }

func (n *node) failure(err error) failure {
	return failure{n.addr, strings.TrimPrefix(reason(err), n.addr+": ")}
}

const noAnswer = "no answer in time"

// reason puts an error of a node into few words, without its address.
func reason(err error) string {
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" && dial.Err != nil { // whose text repeats the address
		return fmt.Sprintf("cannot be reached (%v)", dial.Err)
	}
	return plain(err)
}

// missing says that too few nodes serve, and why.
func (b *Backend) missing(all []failure) string {
	return fmt.Sprintf("%d of %d nodes do not serve, and %d are needed: %s", len(all), len(b.nodes), b.quorum, together(all))
}

// together names the nodes that fail for one reason together.
func together(all []failure) string {
	var reasons []string
	nodes := make(map[string][]string)
	for _, f := range all {
		if !slices.Contains(reasons, f.why) {
			reasons = append(reasons, f.why)
		}
		nodes[f.why] = append(nodes[f.why], f.addr)
	}
	for i, why := range reasons {
		reasons[i] = strings.Join(nodes[why], ", ") + ": " + why
	}
	return strings.Join(reasons, "; ")
}

// plain is the text of err without its class: an error has one class only.
func plain(err error) string {
	text := err.Error()
	for _, class := range []error{driver.ErrUnavailable, driver.ErrRefused, driver.ErrUnknown} {
		text = strings.TrimPrefix(text, class.Error()+": ")
	}
	return text
}
