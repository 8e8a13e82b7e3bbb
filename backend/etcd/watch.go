package etcd

import (
	"context"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// watch tells what happens to the keys of a name, or to one of them.
type watch struct {
	within string
	key    string // the deletion of this one alone; empty: all
	from   int64  // the first revision to tell of; 0: from now on
	seen   int64  // where from is 0: that of the store when the one who watches last looked
	events events
	added  bool
	stop   context.CancelFunc // ends a watch of its own; nil: it has none
}

// events is told what happens.
type events interface {
	happened(key string, deleted bool)
	missed() // something may have happened unseen
}

// watches are all watches of a backend, on one stream of clientv3. Each takes one goroutine of clientv3 and one of ours, so that a process with more
// than ownWatches of them begins a single one of all locks' keys instead, and keeps that until it has none. The backend's mutex guards them.
type watches struct {
	b      *Backend
	names  map[string][]*watch // by within
	n      int
	shared context.CancelFunc // ends the one that all share; nil: each has its own
	next   int64              // the first revision that the shared one has not told of; 0: it has not begun
}

const (
	ownWatches = 32
	// Pauses before a watch that broke is begun again. clientv3 itself has tried until then.
	retrySoon = 50 * time.Millisecond
	retryLate = 2 * time.Second
)

// add has w told of what happens until remove. The mutex is held.
func (ws *watches) add(w *watch) {
	if w.added {
		return
	}
	w.added = true
	ws.names[w.within] = append(ws.names[w.within], w)
	ws.n++
	switch {
	case ws.shared != nil:
		if max(w.from, w.seen+1) < ws.next {
			ws.b.background(w.events.missed)
		}
	case ws.n <= ownWatches:
		ws.begin(w)
	default:
		ws.each(func(w *watch) {
			if w.stop != nil {
				w.stop()
				w.stop = nil
			}
		})
		all := &watch{within: ws.b.layout.prefix, events: (*shared)(ws)}
		ws.begin(all)
		ws.shared, ws.next = all.stop, 0
	}
}

// remove ends w, which may be nil. It may be told of one more event. The mutex is held.
func (ws *watches) remove(w *watch) {
	if w == nil || !w.added {
		return
	}
	w.added = false
	ws.names[w.within] = slices.DeleteFunc(ws.names[w.within], func(other *watch) bool { return other == w })
	if len(ws.names[w.within]) == 0 {
		delete(ws.names, w.within)
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

// begin gives w a watch of its own. The mutex is held.
func (ws *watches) begin(w *watch) {
	var ctx context.Context
	ctx, w.stop = context.WithCancel(clientv3.WithRequireLeader(ws.b.ctx)) // a member that has lost its leader ends it, so that another is asked
	own := *w
	ws.b.background(func() { ws.follow(ctx, &own) })
}

// follow tells of what w is about until ctx ends.
func (ws *watches) follow(ctx context.Context, w *watch) {
	key, opts := w.within, []clientv3.OpOption{clientv3.WithCreatedNotify(), clientv3.WithPrefix()}
	if w.key != "" {
		key, opts[1] = w.key, clientv3.WithFilterPut()
	}
	for pause := retrySoon; ctx.Err() == nil; pause = min(2*pause, retryLate) {
		if client, err := ws.b.ready(ctx); err == nil {
			for r := range client.Watch(ctx, key, append(opts, clientv3.WithRev(w.from))...) {
				missed := r.CompactRevision > 0 // it was to begin in a past that is not kept
				switch n := len(r.Events); {
				case missed:
					w.from, w.seen = 0, 0
				case n > 0: // the header's revision may be later: that of more to come
					w.from = r.Events[n-1].Kv.ModRevision + 1
				case r.Created:
					pause = retrySoon
					if w.from == 0 {
						w.from, missed = r.Header.Revision+1, r.Header.Revision != w.seen
					}
				}
				if _, all := w.events.(*shared); all {
					ws.b.mu.Lock()
					ws.next = w.from
					ws.b.mu.Unlock()
				}
				if missed {
					w.events.missed()
				}
				for _, e := range r.Events {
					w.events.happened(string(e.Kv.Key), e.Type == clientv3.EventTypeDelete)
				}
			}
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// shared is told of everything by the watch that all share.
type shared watches

func (s *shared) happened(key string, deleted bool) {
	_, suffix, _ := s.b.layout.name(key)
	s.b.mu.Lock()
	all := slices.Clone(s.names[strings.TrimSuffix(key, suffix)])
	s.b.mu.Unlock()
	for _, w := range all {
		if w.key == "" || w.key == key && deleted {
			w.events.happened(key, deleted)
		}
	}
}

func (s *shared) missed() {
	var holders []*claim
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	(*watches)(s).each(func(w *watch) {
		if c, ok := w.events.(*claim); ok {
			holders = append(holders, c)
		} else {
			w.events.missed()
		}
	})
	s.b.background(func() { s.b.confirm(holders) })
}
