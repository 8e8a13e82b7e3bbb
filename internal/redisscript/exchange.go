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
	Call
	calls  []int // indexes of its calls
	source bool  // sends the script's source
	cmd    *command
}

// send makes calls on n in one pipeline and returns their replies. Calls whose script the server does not know, and combined calls that it
// refuses, go again in another pipeline.
func (p *Pipe) send(ctx context.Context, n *node, calls []Call) []Reply {
	replies := make([]Reply, len(calls))
	for todo := p.plan(calls); len(todo) > 0; {
		ack := p.exchange(ctx, n, todo)
		var again []*request
		for _, r := range todo {
			value, err := r.cmd.outcome()
			switch reply := goredis.Error(nil); {
			case isNoScript(err) && !r.source:
				r.args, r.source = r.withSource(), true
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
func (p *Pipe) plan(calls []Call) (requests []*request) {
	order, byScript := slices.Clone(urgent), make(map[*Script][]int)
	for i, c := range calls {
		if byScript[c.script] == nil && !slices.Contains(urgent, c.script) {
			order = append(order, c.script)
		}
		byScript[c.script] = append(byScript[c.script], i)
	}
	for _, script := range order {
		if at := byScript[script]; len(at) > 1 && script.batch != nil && p.cluster == nil {
			requests = append(requests, together(calls, at))
		} else {
			requests = append(requests, apart(calls, at)...)
		}
	}
	return requests
}

// urgent lists the scripts that go before all others.
var urgent = []*Script{Release, releaseBeside}

// apart makes one request for each of the calls at.
func apart(calls []Call, at []int) []*request {
	requests := make([]*request, len(at))
	for i, j := range at {
		requests[i] = &request{Call: calls[j], calls: at[i : i+1]}
	}
	return requests
}

// together makes one request of the calls at. They have the same script and the same numbers of keys and arguments.
func together(calls []Call, at []int) *request {
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
	return &request{Call: script.Call(keys, argv...), calls: at}
}

// acks is the replicas' acknowledgement of a pipeline.
type acks struct {
	n   int
	err error // why n is unknown
}

// exchange sends requests in one pipeline and waits for their outcomes.
func (p *Pipe) exchange(ctx context.Context, n *node, requests []*request) (ack acks) {
	pipeline := p.Client.Pipeline()
	waits := slices.ContainsFunc(requests, func(r *request) bool { return p.waits(r.script) })
	if waits && n.client != nil { // WAIT must go to the node that ran the scripts
		pipeline = n.client.Pipeline()
	}
	for _, r := range requests {
		r.cmd = newCommand(r.args)
		_ = pipeline.Process(ctx, r.cmd)
	}
	var wait *command
	if waits { // one WAIT for all: it counts the replicas that have everything written on this connection
		wait = newCommand([]any{"wait", p.replicas, p.waitTime.Milliseconds()})
		_ = pipeline.Process(ctx, wait)
	}
	if _, err := pipeline.Exec(ctx); err != nil {
		for _, r := range requests {
			if r.cmd.Err() == nil && r.cmd.Val() == nil { // go-redis sets no error if the server refused the connection
				r.cmd.SetErr(err)
			}
		}
	}
	if p.cluster != nil && slices.ContainsFunc(requests, func(r *request) bool { return r.cmd.Err() != nil }) {
		p.cluster.ReloadState(ctx) // slots may have moved
	}
	if wait == nil {
		return acks{}
	}
	acked, _ := wait.Val().(int64)
	return acks{int(acked), wait.Err()}
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
			replies[j].Err = Classify(err, true)
			continue
		}
		reply := Reply{Value: list[i]}
		if failed, ok := list[i].([]any); ok && len(r.calls) > 1 && len(failed) == 2 && failed[0] == "!" { // see each.lua
			reply = Reply{Err: Classify(ReplyError(fmt.Sprint(failed[1])), true)}
		} else if r.script.acks {
			if reply.Acked = ack.n; ack.err != nil {
				reply.Err = fmt.Errorf("%w: waiting for replicas: %w", driver.ErrUnknown, ack.err)
			}
		}
		replies[j] = reply
	}
}
