package etcd

import (
	"context"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// watch tells what happens to a key, or to all that begin with it.
type watch struct {
	key     string
	below   bool // those that begin with it
	deletes bool // tell of deletions alone

	// Guarded by watches.mu.
	state watchState
	blind bool  // something may have happened unseen
	from  int64 // the first revision to tell of; 0: from now on
	id    int64 // of etcd

	// opened is called when a watch that was to begin now has begun: events is told what happens after the store's revision. It may be nil.
	opened func(revision int64)
	events witness
}

// witness is told what happens. It is not a function, since a held lock would keep one that its claim is bound to.
type witness interface {
	happened(*mvccpb.Event)
}

// witnessed is a witness that is a function.
type witnessed func(*mvccpb.Event)

func (f witnessed) happened(e *mvccpb.Event) { f(e) }

type watchState uint8

const (
	closed watchState = iota // etcd has not been asked, or has forgotten
	asked
	open
	removed // not wanted any more, and etcd's answer outstanding
)

// watches are all watches of a backend, on one stream that is opened when the first is needed, and opened again when it breaks.
type watches struct {
	b *Backend

	mu     sync.Mutex
	closed bool
	all    map[*watch]struct{}
	stream *stream[pb.WatchRequest, pb.WatchResponse] // nil: not running
	asked  []*watch                                   // in the order in which etcd answers
	byID   map[int64]*watch
	pause  time.Duration // before it is opened again
	again  *time.Timer   // that does so; nil: it is not due
	ping   *watch        // that stands for a sign of life; nil: none
	pinged time.Time     // when etcd was asked for a sign of life that has not come; zero: not
}

// Pauses before the stream is opened again.
const (
	reopenSoon = 50 * time.Millisecond
	reopenLate = 2 * time.Second
)

// add has w watched until remove.
func (ws *watches) add(w *watch) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.all[w] = struct{}{}
	switch {
	case ws.stream != nil:
		ws.ask(w)
	case ws.again == nil && !ws.closed:
		ws.reopen()
	}
}

// remove ends w. It may be told of one more event.
func (ws *watches) remove(w *watch) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	delete(ws.all, w)
	switch w.state {
	case asked:
		w.state = removed
	case open:
		w.state = closed
		delete(ws.byID, w.id)
		ws.cancel(w.id)
	}
}

// sees reports that w is watched, and has missed nothing.
func (ws *watches) sees(w *watch) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return w.state == open && !w.blind
}

func (ws *watches) ask(w *watch) {
	w.state = asked
	r := &pb.WatchCreateRequest{Key: []byte(w.key), StartRevision: w.from}
	if w.below {
		r.RangeEnd = rangeEnd(w.key)
	}
	if w.deletes {
		r.Filters = []pb.WatchCreateRequest_FilterType{pb.WatchCreateRequest_NOPUT}
	}
	ws.asked = append(ws.asked, w)
	ws.stream.put(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: r}})
}

func (ws *watches) cancel(id int64) {
	ws.stream.put(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CancelRequest{CancelRequest: &pb.WatchCancelRequest{WatchId: id}}})
}

// reopen opens the stream. A member of etcd that has lost its leader ends it, so that another is asked. The mutex is held.
func (ws *watches) reopen() {
	type s = stream[pb.WatchRequest, pb.WatchResponse]
	ws.byID, ws.asked, ws.ping, ws.pinged = make(map[int64]*watch), nil, nil, time.Time{}
	ws.stream = openStream(ws.b.link.ctx, &ws.b.running,
		func(ctx context.Context) (pb.Watch_WatchClient, error) {
			w, err := ws.b.link.wires(ctx)
			if err != nil {
				return nil, err
			}
			return w.watch.Watch(clientv3.WithRequireLeader(ctx))
		},
		ws.heard,
		func(s *s, _ error) { ws.fell(s) })
	for w := range ws.all {
		ws.ask(w)
	}
}

// fell has a stream that broke opened again.
func (ws *watches) fell(s *stream[pb.WatchRequest, pb.WatchResponse]) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.stream != s {
		return
	}
	ws.stream = nil
	for w := range ws.all {
		w.state = closed
	}
	if ws.closed || len(ws.all) == 0 {
		return
	}
	ws.pause = min(max(2*ws.pause, reopenSoon), reopenLate)
	ws.again = time.AfterFunc(ws.pause, func() {
		ws.mu.Lock()
		defer ws.mu.Unlock()
		ws.again = nil
		if !ws.closed && ws.stream == nil && len(ws.all) > 0 {
			ws.reopen()
		}
	})
}

// heard takes what etcd sends.
func (ws *watches) heard(s *stream[pb.WatchRequest, pb.WatchResponse], r *pb.WatchResponse) {
	tell := func() {}
	defer func() { tell() }()
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.stream != s {
		return
	}
	ws.pinged = time.Time{}
	switch w := ws.byID[r.WatchId]; {
	case r.Created:
		ws.pause = 0
		if len(ws.asked) > 0 {
			w, ws.asked = ws.asked[0], ws.asked[1:]
			tell = ws.begun(w, r)
		}
	case w == nil: // a sign of life, or of a watch that is not wanted any more
	case r.Canceled:
		delete(ws.byID, w.id)
		w.state, w.blind = closed, true
		if r.CompactRevision > 0 { // it was to begin in a past that is not kept
			w.from = 0
			ws.ask(w)
		}
	default:
		if n := len(r.Events); n > 0 { // the header's revision may be later: that of more to come
			w.from = r.Events[n-1].Kv.ModRevision + 1
		}
		tell = func() {
			for _, e := range r.Events {
				w.events.happened(e)
			}
		}
	}
}

// begun notes that etcd has answered the request for w, and returns what is to be done about it. The mutex is held.
func (ws *watches) begun(w *watch, r *pb.WatchResponse) (tell func()) {
	tell = func() {}
	switch {
	case r.Canceled: // refused: who needs it looks for himself
		w.state, w.blind = closed, true
		return tell
	case w.state == removed:
		w.state = closed
		ws.cancel(r.WatchId)
		return tell
	}
	w.state, w.id = open, r.WatchId
	ws.byID[w.id] = w
	if w.from == 0 {
		revision := r.Header.GetRevision()
		w.from = revision + 1
		if w.opened != nil {
			tell = func() { w.opened(revision) }
		}
	}
	return tell
}

// checkUp asks for a sign of life, and breaks a stream that has not given the last one. It is a watch of a key that nobody has, and the next
// time the end of that watch: etcd 3.7 does not answer WatchProgressRequest while a watch is to begin later than the last change of the store, or catches up.
func (ws *watches) checkUp() {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	switch {
	case ws.stream == nil || len(ws.all) == 0:
	case ws.pinged.IsZero():
		ws.pinged = time.Now()
		switch p := ws.ping; {
		case p != nil && p.state == asked: // the answer is due
		case p != nil && p.state == open:
			p.state = closed
			delete(ws.byID, p.id)
			ws.cancel(p.id)
		default:
			ws.ping = &watch{key: ws.b.layout.prefix + "/", events: witnessed(func(*mvccpb.Event) {})}
			ws.ask(ws.ping)
		}
	case time.Since(ws.pinged) > 4*overdue:
		ws.stream.cancel()
	}
}

// close ends all watches for good.
func (ws *watches) close() {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.closed = true
	if ws.again != nil {
		ws.again.Stop()
	}
}
