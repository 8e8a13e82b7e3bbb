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
	addr string
	pipe *redisscript.Pipe

	mu         sync.Mutex
	queues     map[string][]func() // by name: ordered requests, the first of which is under way
	unanswered int                 // ordered requests without an answer
	since      time.Time           // when the node last answered, or was first asked after it had answered everything
	restReason string              // why the node rests; "": it does not
	restEnd    time.Time           // the end of the rest
}

// An unreachable node, or one that does not answer in time, rests: it gets no requests for rest, then one per rest until it answers. A node with
// maxUnanswered requests and no answer for silence, or for half of its time to answer if that is longer, rests too.
const (
	rest          = 200 * time.Millisecond
	maxUnanswered = 256
	silence       = 100 * time.Millisecond
)

// inOrder calls f on another goroutine once the node has answered, or had its time for, all earlier requests for name. So a claim does not
// overtake the release of the claim before it, nor a release its own claim.
func (n *node) inOrder(name string, f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.unanswered++; n.unanswered == 1 {
		n.since = time.Now()
	}
	n.queues[name] = append(n.queues[name], f)
	if len(n.queues[name]) == 1 {
		go n.serve(name)
	}
}

// serve calls the functions queued for name, one after another. The one under way is the first.
func (n *node) serve(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for len(n.queues[name]) > 0 {
		f := n.queues[name][0]
		n.mu.Unlock()
		f()
		n.mu.Lock()
		n.queues[name] = n.queues[name][1:]
		n.unanswered--
	}
	delete(n.queues, name)
}

// settle waits until the node has answered all ordered requests, or ctx ends.
func (n *node) settle(ctx context.Context) {
	n.mu.Lock()
	names := slices.Collect(maps.Keys(n.queues))
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

// run runs script on the node with a timeout, unless the node rests. The reply's error is classified; see unsure. So a request that is queued
// behind others fails soon after one of them has had no answer.
func (n *node) run(ctx context.Context, timeout time.Duration, script *redisscript.Script, keys []string, argv ...any) redisscript.Reply {
	if err := n.admit(timeout, true); err != nil {
		return redisscript.Reply{Err: err}
	}
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	r := n.pipe.Run(limited, script.Call(keys, argv...))
	late := r.Err != nil && limited.Err() != nil && ctx.Err() == nil
	if late {
		class := driver.ErrUnavailable
		if unsure(r.Err) {
			class = driver.ErrUnknown
		}
		r.Err = fmt.Errorf("%w: %s", class, noAnswer)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	_, replied := errors.AsType[goredis.Error](r.Err)
	switch {
	case r.Err == nil, errors.Is(r.Err, driver.ErrRefused), replied: // also what a full server refuses: it does all the rest
		n.since, n.restReason = time.Now(), ""
	case late || errors.Is(r.Err, driver.ErrUnavailable) && ctx.Err() == nil: // other errors concern one connection or the caller
		n.restReason, n.restEnd = reason(r.Err), time.Now().Add(rest)
	}
	return r
}

// admit returns nil if the node may be asked, with timeout to answer, or why not. now: the caller asks it at once, which tests a resting node.
func (n *node) admit(timeout time.Duration, now bool) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.restReason == "" && n.unanswered >= maxUnanswered && time.Since(n.since) >= max(silence, timeout/2):
		n.restReason, n.restEnd = noAnswer, time.Now().Add(rest)
	case n.restReason == "":
		return nil
	case !time.Now().Before(n.restEnd):
		if now {
			n.restEnd = time.Now().Add(rest)
		}
		return nil
	}
	return fmt.Errorf("%w: %s", driver.ErrUnavailable, n.restReason)
}

// unsure reports that a request that failed with err may have had an effect, or may still have one.
func unsure(err error) bool {
	return err != nil && !errors.Is(err, driver.ErrUnavailable) && !errors.Is(err, driver.ErrRefused)
}

// each calls f for all nodes at once and waits for its results.
func (b *Backend) each(f func(i int, n *node) error) []error {
	errs := make([]error, len(b.nodes))
	var all sync.WaitGroup
	for i, n := range b.nodes {
		all.Go(func() { errs[i] = f(i, n) })
	}
	all.Wait()
	return errs
}

// onEach is each. It returns an error if fewer than a majority of the nodes serve.
func (b *Backend) onEach(ctx context.Context, f func(i int, n *node) error) error {
	errs := b.each(f)
	if ctx.Err() != nil {
		return fmt.Errorf("%w: waiting for the nodes: %w", driver.ErrUnavailable, ctx.Err())
	}
	return b.majority(errs)
}

// askAll runs script on every node and waits until each has answered or timed out.
func (b *Backend) askAll(ctx context.Context, script *redisscript.Script, keys []string, argv ...any) ([]redisscript.Reply, error) {
	replies := make([]redisscript.Reply, len(b.nodes))
	err := b.onEach(ctx, func(i int, n *node) error {
		replies[i] = n.run(ctx, maxNodeTimeout, script, keys, argv...)
		return replies[i].Err
	})
	return replies, err
}

// majority returns an error if fewer than a majority of the nodes serve. errs has each node's error.
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
		return fmt.Errorf("%w: %s", driver.ErrRefused, b.shortage(errs))
	}
	return fmt.Errorf("%w: %s", driver.ErrUnavailable, b.shortage(errs))
}

// shortage says how many nodes do not serve, and why.
func (b *Backend) shortage(errs []error) string {
	failed, why := b.byReason(errs)
	return fmt.Sprintf("%d of %d nodes do not serve, and %d are needed: %s", failed, len(b.nodes), b.quorum, why)
}

// byReason lists the failed nodes with their reasons.
func (b *Backend) byReason(errs []error) (failed int, why string) {
	var reasons []string
	for i, err := range errs {
		if err != nil {
			reasons = append(reasons, b.nodes[i].addr+": "+reason(err))
		}
	}
	return len(reasons), strings.Join(reasons, "; ")
}

const noAnswer = "no answer in time"

var errSilent = fmt.Errorf("%w: %s", driver.ErrUnknown, noAnswer)

// reason shortens a node's error: no address, no class.
func reason(err error) string {
	if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Op == "dial" { // its text repeats the address
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
