package etcd

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"
)

// watch reports events on the keys of a name, or on one key.
type watch struct {
	prefix string
	key    string // report only deletions of this key; empty: all events
	from   int64  // first revision to report; 0: from now on
	seen   int64  // if from is 0: the revision that the watcher last read
	events events
	stop   context.CancelFunc // ends its own etcd watch; nil: it never had one
}

// events receives what a watch reports.
type events interface {
	happened(key string, deleted bool, revision int64)
	missed() // events may have been missed; the backend's mutex is held
}

// watches are all watches of a backend, on one stream of clientv3, or another once etcd refuses a watch. Each own watch costs two goroutines. With
// more than ownWatches, one watch of all locks' keys replaces them, until the last is removed. The backend's mutex guards them.
type watches struct {
	b      *Backend
	names  map[string][]*watch // by prefix
	n      int
	shared context.CancelFunc // ends the shared watch; nil: each has its own
	stream atomic.Int64       // number of the stream for new watches: etcd refuses them on one whose token has ended
}

const (
	ownWatches = 32
	// Pauses before a broken watch is restarted. clientv3 has given up on it by then.
	retrySoon = 50 * time.Millisecond
	retryLate = 2 * time.Second
)

// add makes w report events until remove. The mutex is held.
func (ws *watches) add(w *watch) {
	ws.names[w.prefix] = append(ws.names[w.prefix], w)
	ws.n++
	switch {
	case ws.shared != nil: // it may have reported w's first events already
		w.events.missed()
	case ws.n <= ownWatches:
		ws.begin(w)
	default:
		ws.each(func(w *watch) {
			if w.stop != nil {
				w.stop()
			}
		})
		all := &watch{prefix: ws.b.layout.prefix, events: ws}
		ws.begin(all)
		ws.shared = all.stop
	}
}

// remove ends w, which may be nil. One more event may follow. The mutex is held.
func (ws *watches) remove(w *watch) {
	if w == nil {
		return
	}
	i := slices.Index(ws.names[w.prefix], w)
	if i < 0 { // not added, or removed already
		return
	}
	ws.names[w.prefix] = slices.Delete(ws.names[w.prefix], i, i+1)
	if len(ws.names[w.prefix]) == 0 {
		delete(ws.names, w.prefix)
	}
	ws.n--
	if w.stop != nil {
		w.stop()
	}
	if ws.shared != nil && ws.n == 0 {
		ws.shared()
		ws.shared = nil
	}
}

func (ws *watches) each(do func(*watch)) {
	for _, of := range ws.names {
		for _, w := range of {
			do(w)
		}
	}
}

// begin gives w its own etcd watch. The mutex is held.
func (ws *watches) begin(w *watch) {
	var ctx context.Context
	// A member that loses its leader ends the watch, so that another member is asked.
	ctx, w.stop = context.WithCancel(clientv3.WithRequireLeader(ws.b.ctx))
	ws.b.background(func() { ws.follow(ctx, w) })
}

// follow reports w's events until ctx ends.
func (ws *watches) follow(ctx context.Context, w *watch) {
	key, opts := w.prefix, []clientv3.OpOption{clientv3.WithCreatedNotify(), clientv3.WithPrefix()}
	if w.key != "" {
		key, opts[1] = w.key, clientv3.WithFilterPut()
	}
	for pause := retrySoon; ctx.Err() == nil; pause = min(2*pause, retryLate) {
		if client, err := ws.b.ready(ctx); err == nil {
			stream := ws.stream.Load() // clientv3 opens a stream, with a new token, for each set of metadata
			on := metadata.AppendToOutgoingContext(ctx, "lockport-stream", strconv.FormatInt(stream, 10))
			for r := range client.Watch(on, key, append(opts, clientv3.WithRev(w.from))...) {
				missed := r.CompactRevision > 0 // its start was compacted away
				switch n := len(r.Events); {
				case missed:
					w.from, w.seen = 0, 0
				case r.Canceled:
					ws.stream.CompareAndSwap(stream, stream+1)
				case n > 0: // the header's revision may cover later events
					w.from = r.Events[n-1].Kv.ModRevision + 1
				case r.Created:
					pause = retrySoon
					if w.from == 0 {
						w.from, missed = r.Header.Revision+1, r.Header.Revision != w.seen
					}
				}
				if missed {
					ws.b.mu.Lock()
					w.events.missed()
					ws.b.mu.Unlock()
				}
				for _, e := range r.Events {
					w.events.happened(string(e.Kv.Key), e.Type == clientv3.EventTypeDelete, e.Kv.ModRevision)
				}
			}
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// happened passes on an event of the shared watch.
func (ws *watches) happened(key string, deleted bool, revision int64) {
	_, suffix, _ := ws.b.layout.name(key)
	ws.b.mu.Lock()
	all := slices.Clone(ws.names[strings.TrimSuffix(key, suffix)])
	ws.b.mu.Unlock()
	for _, w := range all {
		if w.key == "" || w.key == key && deleted {
			w.events.happened(key, deleted, revision)
		}
	}
}

func (ws *watches) missed() { ws.each(func(w *watch) { w.events.missed() }) }
