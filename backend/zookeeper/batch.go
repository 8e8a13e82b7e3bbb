package zookeeper

import "time"

// Writes are what costs a server most. When maxWrites packets of them are under way on a connection, further ones wait for a reply and
// then go together, as one transaction of at most maxBatch.
const (
	maxWrites = 4
	maxBatch  = 64
)

// group is what a caller sends together. If it begins with a write, that may become part of a transaction.
type group struct {
	frames  []frame
	pending []*pending
}

// isWrite says that an operation may be part of a transaction.
func isWrite(op int32) bool { return op == opCreate || op == opDelete }

// needsQuorum says that the answer to an operation proves that a quorum consented.
func needsQuorum(op int32) bool { return isWrite(op) || op == opMulti || op == opCreateContainer }

// next takes what is to be sent of the groups that wait, now that there is room. t.mu is held.
func (t *tap) next() {
	for len(t.groups) > 0 && t.busy < maxWrites {
		if len(t.groups) == 1 {
			t.put(t.groups[0])
			t.groups = nil
			return
		}
		t.putBatch()
	}
}

// putBatch sends the writes of groups as one transaction, and the rest of the groups behind it. All nodes that a transaction creates have
// its number, which is the token: so it creates one for each lock at most. t.mu is held.
func (t *tap) putBatch() {
	locks := make(map[string]bool)
	var batch, left []group
	for _, g := range t.groups {
		if f := g.frames[0]; len(batch) == maxBatch || f.op() == opCreate && locks[f.parent()] {
			left = append(left, g)
			continue
		} else if f.op() == opCreate {
			locks[f.parent()] = true
		}
		batch = append(batch, g)
	}
	t.groups = left
	multi := newFrame(opMulti)
	for _, g := range batch {
		multi = append(multi.int(g.frames[0].op()).bool(false).int(-1), g.frames[0][4+headerBytes:]...)
		g.pending[0].sent = time.Now()
	}
	multi = multi.int(-1).bool(true).int(-1)
	p := &pending{op: opMulti, size: len(multi), done: make(chan struct{}), batch: batch}
	t.putOne(multi, p)
	for _, g := range batch {
		for i, f := range g.frames[1:] {
			t.putOne(f, g.pending[i+1])
		}
	}
}

// split gives the members of a transaction their replies. One that failed had no effect at all: then each is sent alone, and the
// lists that were sent behind it are asked for again by who finds himself missing. t.mu is held.
func (t *tap) split(p *pending) {
	if p.err == nil {
		b := p.body
		replies := make([]body, len(p.batch))
		good := true
		for i := range p.batch {
			op := b.int()
			b.take(1 + 4)
			switch op {
			case opCreate:
				n := len(b.left)
				whole := b.left
				b.string()
				replies[i].left = whole[:n-len(b.left)]
			case opDelete:
			default:
				good = false
			}
		}
		if good && !b.bad {
			for i, g := range p.batch {
				g.pending[0].zxid, g.pending[0].body = p.zxid, replies[i]
				close(g.pending[0].done)
			}
			return
		}
	}
	for _, g := range p.batch {
		t.put(group{g.frames[:1], g.pending[:1]})
	}
}

// failBatch fails the members of a transaction whose connection was lost.
func (p *pending) failBatch() {
	for _, g := range p.batch {
		g.pending[0].err = p.err
		close(g.pending[0].done)
	}
}

// path is the one with which a frame begins.
func (f frame) path() string {
	b := body{left: f[4+headerBytes:]}
	return b.string()
}

// parent is the path above that.
func (f frame) parent() string {
	path := f.path()
	return path[:len(path)-len(base(path))]
}
