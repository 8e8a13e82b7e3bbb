package session

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// lockServer is a lock server in memory: re-entrant locks that belong to sessions, as those of the databases are. It notes what no engine may do.
type lockServer struct {
	mu     sync.Mutex
	born   int
	peers  map[string]*peer
	has    map[Key]*holding
	waits  map[Key][]*peer
	awaits map[Key][]*peer
	tokens uint64
	deaf   bool     // cannot tell who waits
	wrong  []string // what was done wrong
}

type holding struct {
	by    *peer
	times int
	token uint64
}

// peer is a session as the server sees it.
type peer struct {
	id      string
	label   string
	tell    func(event string, key Key) // does not block
	granted func(*Op)                   // of a wait
	waiting *Op
	over    bool
	ended   func() // closes its connection
}

func newLockServer() *lockServer {
	return &lockServer{tokens: 100, peers: map[string]*peer{}, has: map[Key]*holding{}, waits: map[Key][]*peer{}, awaits: map[Key][]*peer{}}
}

// join begins a session.
func (l *lockServer) join(p *peer) *peer {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.born++
	p.id = fmt.Sprint(l.born)
	l.peers[p.id] = p
	return p
}

// leave ends a session, with its locks.
func (l *lockServer) leave(p *peer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop(p)
}

func (l *lockServer) drop(p *peer) {
	if p.over {
		return
	}
	p.over = true
	delete(l.peers, p.id)
	if p.waiting != nil {
		l.waits[p.waiting.Key] = without(l.waits[p.waiting.Key], p)
	}
	for key := range l.awaits {
		l.unawait(key, p)
	}
	for key, h := range l.has {
		if h.by == p {
			l.free(key)
		}
	}
	if p.ended != nil {
		p.ended()
	}
}

func (l *lockServer) unawait(key Key, p *peer) {
	if l.awaits[key] = without(l.awaits[key], p); len(l.awaits[key]) == 0 {
		delete(l.awaits, key)
	}
}

func without(list []*peer, p *peer) []*peer {
	return slices.DeleteFunc(list, func(q *peer) bool { return q == p })
}

// do carries out an op of p.
func (l *lockServer) do(p *peer, op *Op) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.over {
		return
	}
	switch op.Kind {
	case Try:
		l.try(p, op)
	case Free:
		h := l.has[op.Key]
		if op.OK = h != nil && h.by == p; !op.OK {
			l.wrong = append(l.wrong, fmt.Sprintf("%s frees %s, which it does not have", p.id, op.Key))
		} else if h.times--; h.times == 0 {
			l.free(op.Key)
		}
	case Await:
		if op.OK = !l.deaf; !op.OK || slices.Contains(l.awaits[op.Key], p) {
			return
		}
		l.awaits[op.Key] = append(l.awaits[op.Key], p)
		l.contended(op.Key)
	case Leave:
		l.unawait(op.Key, p)
	case End:
		if q := l.peers[op.ID]; q != nil {
			l.drop(q)
		}
		op.OK = true
	}
}

func (l *lockServer) try(p *peer, op *Op) {
	h := l.has[op.Key]
	switch {
	case h != nil && h.by == p:
		l.wrong = append(l.wrong, fmt.Sprintf("%s takes %s twice", p.id, op.Key))
		h.times++
	case h != nil:
		return
	default:
		l.has[op.Key] = &holding{by: p, times: 1}
	}
	l.tokens++
	op.OK, op.Token = true, l.tokens
	l.has[op.Key].token = op.Token
}

// contended tells the holder of key that somebody waits.
func (l *lockServer) contended(key Key) {
	if h := l.has[key]; h != nil && h.by.tell != nil {
		h.by.tell("contended", key)
	}
}

// wait is a Try that waits: granted is called when op was granted, perhaps at once.
func (l *lockServer) wait(p *peer, op *Op, granted func(*Op)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.over {
		return
	}
	if l.try(p, op); op.OK {
		granted(op)
		return
	}
	p.waiting, p.granted = op, granted
	l.waits[op.Key] = append(l.waits[op.Key], p)
	if !l.deaf {
		l.contended(op.Key)
	}
}

// free gives key to who waits, or tells who awaits it.
func (l *lockServer) free(key Key) {
	delete(l.has, key)
	for len(l.waits[key]) > 0 {
		p := l.waits[key][0]
		l.waits[key] = l.waits[key][1:]
		op := p.waiting
		p.waiting = nil
		l.try(p, op)
		p.granted(op)
		break
	}
	if len(l.waits[key]) == 0 {
		delete(l.waits, key)
	}
	for _, p := range l.awaits[key] {
		if p.tell != nil {
			p.tell("freed", key)
		}
	}
}

// left is what the server keeps of keys that start with prefix.
func (l *lockServer) left(prefix string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var left []string
	add := func(what string, key Key, ids ...string) {
		if strings.HasPrefix(string(key), prefix) {
			left = append(left, fmt.Sprintf("%s %s by %v", key, what, ids))
		}
	}
	for key, h := range l.has {
		add("held", key, h.by.id)
	}
	for key, ps := range l.waits {
		for _, p := range ps {
			add("waited for", key, p.id)
		}
	}
	for key, ps := range l.awaits {
		for _, p := range ps {
			add("awaited", key, p.id)
		}
	}
	return left
}

// mistakes is what was done wrong so far.
func (l *lockServer) mistakes() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.wrong)
}
