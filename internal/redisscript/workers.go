package redisscript

import (
	"context"
	"slices"
	"time"
)

const (
	// maxActive is how many pipelines are under way at once, as long as all goes well. Two keep the server busy while the replies
	// of one are handed out; more make them shorter.
	maxActive = 2
	// maxBatch is how many calls go into one pipeline.
	maxBatch = 512
	// patience is how long calls wait for a pipeline to come back before they get one more, and maxExtra how many of those there
	// may be: a connection that has died silently must not hold up those whose requests could pass.
	patience = 50 * time.Millisecond
	maxExtra = 8
)

// MaxConnections is how many connections a [Pipe] has at most: that of who asks alone, and the workers'.
const MaxConnections = 1 + maxActive + maxExtra

// worker sends what waits and hands out the replies.
type worker struct {
	wire  *wire   // nil: there are no wires
	batch []*call // that are under way; guarded by Pipe.mu
	sends []*call // the same, in the order in which they go
}

// startWorker gives the calls that wait a worker. The mutex is held.
func (p *Pipe) startWorker() {
	p.active++
	if p.idle > 0 {
		p.idle--
		p.kick <- struct{}{}
	} else {
		go p.work(p.newWorker())
	}
}

// armRescue gives the calls that wait a further worker unless one comes back in time. The mutex is held.
func (p *Pipe) armRescue() {
	p.armed = true
	if p.rescuer == nil {
		p.rescuer = time.AfterFunc(patience, p.rescue)
	} else {
		p.rescuer.Reset(patience)
	}
}

func (p *Pipe) rescue() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed = false
	if p.closed || len(p.waiting) == 0 {
		return
	}
	if p.active < maxActive+maxExtra {
		p.startWorker()
	} else {
		p.armRescue()
	}
}

// newWorker makes a worker. The mutex is held.
func (p *Pipe) newWorker() *worker {
	w := &worker{}
	switch n := len(p.wires); {
	case n > 0:
		w.wire, p.wires = p.wires[n-1], p.wires[:n-1]
	case p.solo != nil:
		w.wire = newWire(p.client)
		w.wire.merger.apart = p.apart
	}
	p.workers = append(p.workers, w)
	return w
}

// leave ends w, whose wire is kept if it is one of a few. The mutex is held, and released.
func (p *Pipe) leave(w *worker) {
	p.workers = slices.DeleteFunc(p.workers, func(o *worker) bool { return o == w })
	keep := w.wire != nil && !p.closed && len(p.wires) < maxActive
	if keep {
		p.wires = append(p.wires, w.wire)
	}
	p.mu.Unlock()
	if w.wire != nil && !keep {
		w.wire.close()
	}
}

// work runs batches as long as there are calls, and then waits for more.
func (p *Pipe) work(w *worker) {
	var done []*call
	for {
		p.mu.Lock()
		p.take(w)
		for len(w.batch) == 0 {
			p.active--
			if p.closed || p.active+p.idle >= maxActive {
				p.leave(w)
				return
			}
			p.idle++
			p.mu.Unlock()
			<-p.kick
			p.mu.Lock()
			p.take(w)
		}
		p.mu.Unlock()
		p.send(w)
		p.mu.Lock()
		done, w.batch = w.batch, done[:0] // nobody nudges them any more
		p.mu.Unlock()
		for i, c := range done {
			done[i] = nil
			c.end()
		}
	}
}

// take gives w calls that wait. The mutex is held.
func (p *Pipe) take(w *worker) {
	n := 0
	for _, c := range p.waiting {
		if len(w.batch) == maxBatch {
			break
		}
		n++
		if !c.gone {
			c.taken = true
			w.batch = append(w.batch, c)
		}
	}
	if n == len(p.waiting) { // as a rule
		clear(p.waiting)
		p.waiting = p.waiting[:0]
	} else {
		p.waiting = slices.Delete(p.waiting, 0, n)
	}
	if len(p.waiting) > 0 && !p.armed {
		p.armRescue()
	}
}

// send sends the batch of w and reads the replies.
func (p *Pipe) send(w *worker) {
	batch := append(w.sends[:0], w.batch...)
	ctx := untilContext{context.Background(), latest(batch)}
	var wait *call
	if slices.ContainsFunc(batch, func(c *call) bool { return c.acks }) {
		// One for all: it counts the replicas that have everything which this connection has written.
		wait = &call{waits: true, args: []any{"wait", p.replicas, p.waitTime.Milliseconds()}}
		batch = append(batch, wait)
	}
	if w.wire != nil {
		w.wire.runAll(ctx, batch)
	} else {
		through(ctx, p.client, batch)
	}
	clear(batch)
	w.sends = batch[:0]
	if wait != nil {
		acked, _ := wait.value.(int64)
		for _, c := range w.batch {
			if c.acks {
				c.acked, c.ackErr = int(acked), wait.err
			}
		}
	}
}

// latest is the last of the deadlines of batch; zero if one has none.
func latest(batch []*call) time.Time {
	var t time.Time
	for _, c := range batch {
		if c.deadline.IsZero() {
			return time.Time{}
		}
		if c.deadline.After(t) {
			t = c.deadline
		}
	}
	return t
}

// untilContext has a deadline for the socket and no timer: those who wait have their own.
type untilContext struct {
	context.Context
	deadline time.Time
}

func (c untilContext) Deadline() (time.Time, bool) { return c.deadline, !c.deadline.IsZero() }
