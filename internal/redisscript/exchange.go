package redisscript

import (
	"context"
	"errors"
	"fmt"
	"slices"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockport/lockport/driver"
)

// errMalformed means that none of our scripts gives this reply.
var errMalformed = errors.New("the script's reply is malformed")

// request is one command: one call, or several calls of the same script combined.
type request struct {
	script *Script
	args   []any
	calls  []int // indexes of its calls
	source bool  // sends the script's source
	cmd    *command
}

// send runs calls on n in one pipeline and returns their replies. Calls whose script the server does not know, and combined calls that it
// refuses, go again in another pipeline.
func (p *Pipe) send(ctx context.Context, n *node, calls []call) []Reply {
	replies := make([]Reply, len(calls))
	for todo := p.plan(calls); len(todo) > 0; {
		ack := p.exchange(ctx, n, todo)
		var again []*request
		for _, r := range todo {
			value, err := r.cmd.outcome()
			switch reply := goredis.Error(nil); {
			case isNoScript(err) && !r.source:
				r.args, r.source = r.script.withSource(r.args), true
				again = append(again, r)
			case len(r.calls) > 1 && errors.As(err, &reply): // none has run: a single call's error would be among the replies
				again = append(again, apart(calls, r.calls)...)
			default:
				r.deliver(replies, value, err, ack)
			}
		}
		todo = again
	}
	return replies
}

// plan makes requests of calls. Releases go first, so that claims of the same names find them free. Several calls of a script that has a
// batch variant become one request, except in a Cluster, where their keys need not share a slot.
func (p *Pipe) plan(calls []call) (requests []*request) {
	order := make([]int, len(calls))
	for i := range order {
		order[i] = i
	}
	if len(calls) == 1 {
		return apart(calls, order)
	}
	slices.SortStableFunc(order, func(a, b int) int { return rank(calls[a].script) - rank(calls[b].script) })
	for len(order) > 0 {
		script, n := calls[order[0]].script, 1
		for n < len(order) && calls[order[n]].script == script {
			n++
		}
		if n > 1 && script.batch != nil && p.cluster == nil {
			requests = append(requests, together(calls, order[:n]))
		} else {
			requests = append(requests, apart(calls, order[:n])...)
		}
		order = order[n:]
	}
	return requests
}

// first lists the scripts that go before all others, in order.
var first = []*Script{Release, releaseBeside, Acquire}

func rank(s *Script) int {
	if i := slices.Index(first, s); i >= 0 {
		return i
	}
	return len(first)
}

// apart makes one request for each of the calls at.
func apart(calls []call, at []int) []*request {
	requests := make([]*request, len(at))
	for i, j := range at {
		requests[i] = &request{script: calls[j].script, args: calls[j].args, calls: at[i : i+1]}
	}
	return requests
}

// together makes one request of the calls at. They have the same script and the same numbers of keys and arguments.
func together(calls []call, at []int) *request {
	script, first := calls[at[0]].script.batch, calls[at[0]].args
	nkeys, nargs := first[2].(int), len(first)
	keys, argv := make([]string, 0, len(at)*nkeys), make([]any, 0, 2+len(at)*(nargs-3-nkeys))
	argv = append(argv, nkeys, nargs-3-nkeys)
	for _, i := range at {
		for _, k := range calls[i].args[3 : 3+nkeys] {
			keys = append(keys, k.(string))
		}
		argv = append(argv, calls[i].args[3+nkeys:]...)
	}
	return &request{script: script, args: script.Call(keys, argv...), calls: at}
}

// acks is the replicas' acknowledgement of a pipeline.
type acks struct {
	n   int
	err error // why n is unknown
}

// exchange sends requests and waits for their outcomes.
func (p *Pipe) exchange(ctx context.Context, n *node, requests []*request) (ack acks) {
	waits := slices.ContainsFunc(requests, func(r *request) bool { return p.waits(r.script) })
	var through interface {
		Process(ctx context.Context, cmd goredis.Cmder) error
		Pipeline() goredis.Pipeliner
	} = p.client
	if waits && n.client != nil { // WAIT must go to the node that ran the scripts
		through = n.client
	}
	for _, r := range requests {
		r.cmd = newCommand(r.args)
	}
	if len(requests) == 1 && !waits && p.cluster == nil { // outside pipelines a cluster client sends COMMAND first
		_ = through.Process(ctx, requests[0].cmd) // cmd has the error too
		return acks{}
	}
	pipeline := through.Pipeline()
	for _, r := range requests {
		_ = pipeline.Process(ctx, r.cmd)
	}
	var wait *command
	if waits { // one WAIT for all: it counts the replicas that have everything written on this connection
		wait = newCommand([]any{"wait", p.replicas, p.waitTime.Milliseconds()})
		_ = pipeline.Process(ctx, wait)
	}
	_, _ = pipeline.Exec(ctx)
	if wait != nil {
		value, err := wait.outcome()
		acked, _ := value.(int64)
		ack = acks{int(acked), err}
	}
	p.reloadSlots(ctx, requests)
	return ack
}

// reloadSlots makes a cluster client reload the slot map if an error suggests that slots have moved.
func (p *Pipe) reloadSlots(ctx context.Context, requests []*request) {
	if p.cluster == nil {
		return
	}
	for _, r := range requests {
		_, err := r.cmd.outcome()
		reply := goredis.Error(nil)
		moved := goredis.HasErrorPrefix(err, "MOVED") || goredis.HasErrorPrefix(err, "ASK") || goredis.HasErrorPrefix(err, "READONLY")
		if err != nil && (moved || !errors.As(err, &reply)) {
			p.cluster.ReloadState(ctx)
			return
		}
	}
}

// deliver converts the outcome of r to replies.
func (r *request) deliver(replies []Reply, value any, err error, ack acks) {
	list := []any{value}
	if len(r.calls) > 1 && err == nil {
		if list, _ = value.([]any); len(list) != len(r.calls) {
			err = errMalformed
		}
	}
	for i, j := range r.calls {
		if err != nil {
			replies[j].Err = Classify(err, !notConnected(err))
			continue
		}
		reply := Reply{Value: list[i]}
		if failed, ok := list[i].(error); ok && len(r.calls) > 1 {
			reply = Reply{Err: Classify(failed, true)}
		} else if r.script.acks {
			if reply.Acked = ack.n; ack.err != nil {
				reply.Err = fmt.Errorf("%w: waiting for replicas: %w", driver.ErrUnknown, ack.err)
			}
		}
		replies[j] = reply
	}
}
