package redisscript

import (
	"context"
	"errors"
	"fmt"
	"slices"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockport/lockport/driver"
)

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
		unacked := p.exchange(ctx, n, todo)
		var again []*request
		for _, r := range todo {
			value, err := r.cmd.outcome()
			_, refused := errors.AsType[goredis.Error](err)
			switch {
			case isNoScript(err) && !r.source:
				r.args, r.source = r.withSource(), true
				again = append(again, r)
			case len(r.calls) > 1 && refused: // none has had an effect: a single call's error would be among the replies
				for _, i := range r.calls {
					again = append(again, &request{Call: calls[i], calls: []int{i}})
				}
			default:
				r.deliver(replies, value, err, unacked)
			}
		}
		todo = again
	}
	return replies
}

// plan makes requests of calls. Those of a script that has a batch variant become one request, except in a Cluster, where their keys need
// not share a slot.
func (p *Pipe) plan(calls []Call) (requests []*request) {
	combined := make(map[*Script]*request)
	for i, c := range calls {
		r := combined[c.script]
		if r == nil {
			r = &request{Call: c}
			requests = append(requests, r)
			if c.script.batch != nil && p.cluster == nil {
				combined[c.script] = r
			}
		}
		r.calls = append(r.calls, i)
	}
	for _, r := range combined {
		if len(r.calls) > 1 {
			r.Call = together(calls, r.calls)
		}
	}
	return requests
}

// together makes one call of the calls at. They have the same script and the same numbers of keys and arguments.
func together(calls []Call, at []int) Call {
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
	return script.Call(keys, argv...)
}

// exchange sends requests in one pipeline and waits for their outcomes; see Reply.Unacked.
func (p *Pipe) exchange(ctx context.Context, n *node, requests []*request) (unacked error) {
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
		return nil
	}
	acked, _ := wait.Val().(int64)
	switch err := wait.Err(); {
	case err != nil:
		return fmt.Errorf("%w: waiting for replicas: %w", driver.ErrUnknown, err)
	case int(acked) < p.replicas:
		return fmt.Errorf("%w: only %d of %d replicas acknowledged the write within %v", driver.ErrUnknown, acked, p.replicas, p.waitTime)
	}
	return nil
}

// deliver converts the outcome of r to replies.
func (r *request) deliver(replies []Reply, value any, err, unacked error) {
	list := []any{value}
	if len(r.calls) > 1 && err == nil {
		if list, _ = value.([]any); len(list) != len(r.calls) {
			err = Reply{Value: value}.Unexpected()
		}
	}
	for i, j := range r.calls {
		if err != nil {
			replies[j].Err = err
			continue
		}
		reply := Reply{Value: list[i]}
		if failed, ok := list[i].([]any); ok && len(r.calls) > 1 && len(failed) == 2 && failed[0] == "!" { // see many.lua
			reply = Reply{Err: Classify(ReplyError(fmt.Sprint(failed[1])), true)}
		} else if r.script.acks {
			reply.Unacked = unacked
		}
		replies[j] = reply
	}
}
