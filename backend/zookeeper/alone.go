package zookeeper

import "time"

// recordFor is how long after its deletion a claim's node counts. It is for names that are taken again and again; and a server does not tell of the end of a
// node that we may not read any more, so that a watch alone is no proof for long.
const recordFor = time.Second

// maxRecords bounds the locks of which a connection keeps a record, and so its watches of their nodes.
const maxRecords = 1024

// record is what a connection knows of a lock whose latest claim of ours was the only child of the lock's node.
//
// That node counts its children, and gives each the next number. So if the claim's node was deleted by its holder, and the next node of ours has the very next
// number, no other was created between the two: it is the only child, too, and nobody needs to list them. A lock's node that was removed, and made
// again, counts anew. Therefore it is watched, and a server tells of what is watched before it answers anything that came later.
type record struct {
	path    string    // of the claim's node; empty: there is none that counts
	freed   bool      // it was deleted by its holder
	at      time.Time // when that was found
	watched bool      // the lock's node has been watched since then
	streak  int       // claims that followed each other
}

// expects says what to ask for together with a claim's node below parent: the list, unless the number of the node is likely to do; and a watch of parent once
// that may serve the next.
func (t *tap) expects(parent string) (list, watch bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.records[parent]
	likely := r != nil && r.counts() && r.streak > 0
	return !likely || !r.watched, likely && !r.watched
}

// follows reports that the node at path, which was created on this connection, is the only child of parent, by its number.
func (t *tap) follows(parent, path string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.records[parent]
	if r == nil || !r.watched || !r.succeeds(path) {
		return false
	}
	r.path, r.freed = path, false
	r.streak++
	return true
}

// succeeds reports that no node was created between that of r, which is no more, and the one at path.
func (r *record) succeeds(path string) bool {
	last, ok := numberOf(r.path)
	n, good := numberOf(path)
	return r.counts() && ok && good && n == last+1
}

// counts reports that the claim's node was deleted by its holder, a moment ago.
func (r *record) counts() bool { return r.freed && time.Since(r.at) < recordFor }

// listed notes that the node at path was found to be the only child of parent, or that it was not.
func (t *tap) listed(parent, path string, alone bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.records[parent]
	switch {
	case r != nil && !alone:
		r.path, r.freed, r.streak = "", false, 0
	case r != nil:
		if r.succeeds(path) {
			r.streak++
		} else {
			r.streak = 0
		}
		r.path, r.freed = path, false
	case alone && t.makeRoom():
		t.records[parent] = &record{path: path}
	}
}

// makeRoom makes room for a record, at the expense of one that has no watch. t.mu is held.
func (t *tap) makeRoom() bool {
	if len(t.records) < maxRecords {
		return !t.closed
	}
	for parent, r := range t.records { // any
		if r.watched {
			return false
		}
		delete(t.records, parent)
		return true
	}
	return false
}

// freed notes that the node at path was deleted by its holder.
func (l *life) freed(parent, path string) {
	l.mu.Lock()
	t := l.tap
	l.mu.Unlock()
	t.freed(parent, path)
}

func (t *tap) freed(parent, path string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.records[parent]; r != nil && r.path == path {
		r.freed, r.at = true, time.Now()
	}
}

// armed is called with the reply to a request to watch the node at path, in the order of the connection. What was known before is of no use: the
// node may have been made again. t.mu is held.
func (t *tap) armed(path string, err error) {
	if r := t.records[path]; r != nil && err == nil {
		*r = record{watched: true}
	}
}

// event is called with the body of an event, in the order of the connection: its type, the session's state, and a path.
func (t *tap) event(b body) {
	b.take(2 * 4)
	path := b.string()
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.records, path)
}
