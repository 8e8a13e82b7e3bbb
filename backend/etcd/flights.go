package etcd

import (
	"context"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// maxFlights is how many transactions are under way at once, and maxPassengers how many requests share one. etcd's default limit
	// is 128 operations, and each request has some of its own.
	maxFlights    = 2
	maxPassengers = 64
	// overdue is after how long a flight no longer keeps the others waiting: the member of etcd that it went to may not answer.
	overdue = 50 * time.Millisecond
)

// flights carry the requests of many goroutines to etcd, several in one transaction: what was one of its own is nested in it, with its
// own comparisons.
// One that comes while fewer than maxFlights are under way goes at once, alone, on its caller's goroutine.
type flights struct {
	link *link

	mu     sync.Mutex
	flying int
	queue  []*passenger
}

// request changes something at etcd: it is one of the two.
type request struct {
	txn    *pb.TxnRequest
	delete *pb.DeleteRangeRequest // cheaper for etcd than a transaction that deletes
}

// op is the request as a part of a transaction.
func (q request) op() *pb.RequestOp {
	if q.txn != nil {
		return nested(q.txn)
	}
	return &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: q.delete}}
}

// passenger is a request on its way.
type passenger struct {
	request
	ctx  context.Context
	name string // there is one request about a name in a flight: etcd evaluates all comparisons before any of the operations
	done chan struct{}

	// Guarded by flights.mu until done is closed.
	flight *flight // nil: still in the queue
	answer answer
}

// answer is what became of a request.
type answer struct {
	txn      *pb.TxnResponse // to a transaction
	deleted  bool            // the key to be deleted was there
	repeated bool            // it may have been carried out before
	revision int64           // of the store
	err      error           // classified
}

// flight is a transaction with several passengers.
type flight struct {
	passengers []*passenger
	left       int // passengers that have not given up
	cancel     context.CancelFunc
}

// run carries out a request that is about name.
func (f *flights) run(ctx context.Context, name string, q request) answer {
	f.mu.Lock()
	if f.flying < maxFlights {
		f.flying++
		f.mu.Unlock()
		a := f.send(ctx, q)
		f.landed()
		return a
	}
	p := &passenger{request: q, ctx: ctx, name: name, done: make(chan struct{})}
	f.queue = append(f.queue, p)
	f.mu.Unlock()
	late := time.NewTimer(overdue)
	defer late.Stop()
	for {
		select {
		case <-p.done:
			return p.answer
		case <-late.C:
			f.hurry(p)
		case <-ctx.Done():
			return answer{err: classify(ctx, ctx.Err(), f.giveUp(p))}
		}
	}
}

// hurry begins a further flight if p still waits for one.
func (f *flights) hurry(p *passenger) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if p.flight == nil {
		f.flying++
		f.depart()
	}
}

// giveUp lets p go, and reports whether its request may have been sent.
func (f *flights) giveUp(p *passenger) (sent bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if p.flight != nil {
		if p.flight.left--; p.flight.left == 0 {
			p.flight.cancel()
		}
		return true
	}
	for i, q := range f.queue {
		if q == p {
			f.queue = append(f.queue[:i], f.queue[i+1:]...)
			break
		}
	}
	return false
}

// landed lets those in the queue go.
func (f *flights) landed() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.queue) == 0 {
		f.flying--
		return
	}
	f.depart()
}

// depart lets a flight go that has been counted. The mutex is held.
func (f *flights) depart() {
	next := &flight{}
	names := make(map[string]bool, len(f.queue))
	rest := f.queue[:0]
	for _, p := range f.queue {
		if len(next.passengers) == maxPassengers || names[p.name] {
			rest = append(rest, p)
			continue
		}
		names[p.name] = true
		p.flight = next
		next.passengers = append(next.passengers, p)
	}
	clear(f.queue[len(rest):])
	f.queue = rest
	next.left = len(next.passengers)
	ctx, cancel := context.WithCancel(f.link.ctx)
	next.cancel = cancel
	go func() {
		defer f.landed()
		defer cancel()
		f.fly(ctx, next.passengers)
	}()
}

// fly carries out the requests of all passengers in one transaction.
func (f *flights) fly(ctx context.Context, all []*passenger) {
	if len(all) == 1 {
		f.arrive(all[0], f.send(ctx, all[0].request))
		return
	}
	txn := &pb.TxnRequest{Success: make([]*pb.RequestOp, len(all))}
	for i, p := range all {
		txn.Success[i] = p.op()
	}
	a := f.send(ctx, request{txn: txn})
	if isRejected(a.err) { // perhaps because of one of them
		full := isFull(a.err)
		var each sync.WaitGroup
		for _, p := range all {
			each.Go(func() {
				one := f.send(p.ctx, p.request)
				one.repeated = full
				f.arrive(p, one)
			})
		}
		each.Wait()
		return
	}
	for i, p := range all {
		f.arrive(p, a.part(ctx, i))
	}
}

// part is the answer to operation i of a transaction.
func (a answer) part(ctx context.Context, i int) answer {
	one := answer{revision: a.revision, repeated: a.repeated, err: a.err}
	if a.err != nil {
		return one
	}
	if i < len(a.txn.Responses) {
		if d := a.txn.Responses[i].GetResponseDeleteRange(); d != nil {
			one.deleted = d.Deleted > 0
			return one
		}
		if t := a.txn.Responses[i].GetResponseTxn(); t != nil {
			one.txn = t
			return one
		}
	}
	one.err = classify(ctx, errReply, true)
	return one
}

// arrive gives p its answer.
func (f *flights) arrive(p *passenger, a answer) {
	p.answer = a
	close(p.done)
}

// send sends one request, once: clientv3 would send what etcd, or a proxy before it, has cancelled again, although it may have been, or may
// still be, carried out.
func (f *flights) send(ctx context.Context, q request) answer {
	w, err := f.link.wires(ctx)
	if err != nil {
		return answer{err: err}
	}
	var t trip
	var a answer
	once, stop := context.WithCancel(ctx)
	defer stop()
	finished := grpc.OnFinish(func(err error) {
		if code := status.Code(err); code == codes.Canceled || code == codes.DeadlineExceeded {
			stop()
		}
	})
	if q.txn != nil {
		a.txn, err = w.kv.Txn(once, q.txn, grpc.Peer(&t.peer), finished)
		a.revision = a.txn.GetHeader().GetRevision()
	} else {
		var r *pb.DeleteRangeResponse
		r, err = w.kv.DeleteRange(once, q.delete, grpc.Peer(&t.peer), finished)
		a.revision, a.deleted = r.GetHeader().GetRevision(), r.GetDeleted() > 0
	}
	if err != nil {
		return answer{err: f.link.fault(ctx, w, &t, err)}
	}
	return a
}
