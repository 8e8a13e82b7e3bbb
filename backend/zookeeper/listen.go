package zookeeper

import (
	"encoding/binary"
	"time"
)

// Read passes on what the server sent, save the replies to our own requests.
func (t *tap) Read(p []byte) (int, error) {
	for t.given == len(t.theirs) {
		t.given, t.theirs = 0, t.theirs[:0]
		n, err := t.Conn.Read(t.buffer)
		t.listen(t.buffer[:n])
		if err != nil && !isTimeout(err) {
			t.fail()
		}
		switch {
		case len(t.theirs) > 0:
		case err != nil:
			return 0, err
		case t.patience > 0: // any packet is a sign of life
			_ = t.Conn.SetReadDeadline(time.Now().Add(t.patience))
		}
	}
	n := copy(p, t.theirs[t.given:])
	t.given += n
	return n, nil
}

// listen follows the stream, packet by packet.
func (t *tap) listen(p []byte) {
	for len(p) > 0 || t.want == len(t.part) && t.skip == 0 {
		if t.skip > 0 {
			n := min(t.skip, len(p))
			t.skip -= n
			t.theirs = append(t.theirs, p[:n]...)
			p = p[n:]
			continue
		}
		n := min(t.want-len(t.part), len(p))
		t.part = append(t.part, p[:n]...)
		p = p[n:]
		if len(t.part) < t.want {
			return
		}
		t.advance()
	}
}

// advance is called when a part of a packet is complete.
func (t *tap) advance() {
	switch t.phase {
	case readLength:
		t.size = int(int32(binary.BigEndian.Uint32(t.part)))
		if t.size < 0 || t.size > longest {
			_ = t.Close()
			t.size = 0
		}
		t.part, t.want, t.phase = t.part[:0], min(t.size, headBytes), readHead
		if t.opening() {
			t.want = t.size
		}
	case readHead:
		t.reply = reply{}
		if t.opening() {
			t.shake()
		} else if len(t.part) == headBytes {
			t.heard()
		}
		rest, ours := t.size-t.want, t.reply.to != nil
		if !ours {
			t.theirs = append(binary.BigEndian.AppendUint32(t.theirs, uint32(t.size)), t.part...)
		}
		if ours || t.reply.xid == eventNumber {
			t.part, t.want, t.phase = make([]byte, 0, rest), rest, readBody
		} else {
			t.part, t.want, t.phase, t.skip = t.part[:0], 4, readLength, rest
		}
	case readBody:
		if t.reply.to != nil {
			t.finish()
		} else {
			t.event(body{left: t.part})
			t.theirs = append(t.theirs, t.part...)
		}
		t.part, t.want, t.phase = make([]byte, 0, headBytes), 4, readLength
	}
}

// finish gives a request its reply, unless the connection was closed meanwhile, and sends what waited for it.
func (t *tap) finish() {
	t.mu.Lock()
	r := t.reply
	p := t.pending[r.xid]
	if p != r.to {
		t.mu.Unlock()
		return
	}
	delete(t.pending, r.xid)
	p.zxid, p.body.left, p.err = r.zxid, t.part, errorOf(r.code)
	if p.watch != "" {
		t.armed(p.watch, p.err)
	}
	close(p.done)
	if needsQuorum(p.op) {
		t.busy--
	}
	if p.batch != nil {
		t.split(p)
	}
	t.next()
	t.start()
}

func (t *tap) opening() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.shaken
}

// shake is called with the handshake's response: protocol version, timeout, session, and its password.
func (t *tap) shake() {
	t.mu.Lock()
	t.shaken = true
	opened := t.opened
	t.mu.Unlock()
	b := body{left: append([]byte(nil), t.part...)}
	_, timeout, session := b.int(), time.Duration(b.int())*time.Millisecond, b.long()
	if password := b.string(); !b.bad {
		t.life.attached(session, []byte(password), timeout, opened)
	}
}

// heard is called with the head of each response.
func (t *tap) heard() {
	b := body{left: t.part}
	xid, zxid, code := b.int(), b.long(), b.int()
	timeout := t.life.timeout()
	t.mu.Lock()
	p := t.pending[xid]
	authenticated := t.auth != 0 && xid == t.auth && code == codeOK
	var confirmed time.Time
	if p != nil {
		t.unanswered -= p.size
		t.visited(p.sent, timeout)
		if needsQuorum(p.op) && (code == codeOK || code == codeNoNode) {
			confirmed = t.confirms(p.sent)
		}
	} else if xid == pingNumber && len(t.pings) > 0 {
		t.visited(t.pings[0], timeout)
		t.pings = t.pings[1:]
	}
	t.mu.Unlock()
	t.life.heard(zxid, confirmed)
	if authenticated {
		t.life.authenticated()
	}
	t.reply = reply{p, xid, zxid, code}
	switch code {
	case codeExpired:
		t.life.expired()
	case codeMoved: // another connection has the session: this one is of no use any more
		_ = t.Close()
	}
}

// visited notes that what was sent at sent has been answered. t.mu is held.
func (t *tap) visited(sent time.Time, timeout time.Duration) {
	t.visits.add(visit{sent, time.Now()})
	t.visits.forget(sent.Add(-timeout))
}

// confirms returns the latest time at which the leader is now known to have been told that the session lives. A request that needs a
// quorum was sent at sent, and has been answered on this connection.
//
// A server that is not the leader tells it of the sessions that it heard of when the leader asks, which it does twice a tick, and passes
// requests on in the order of those answers: of whatever the server had answered a tick before the request was sent, the leader was told before the
// request came. That it was written by then is not enough: it may have been on its way for as long, and have arrived together with the
// request. The attachment of the session goes through the leader at once.
func (t *tap) confirms(sent time.Time) time.Time {
	if v := t.visits.latest(sent.Add(-t.tick)); !v.IsZero() {
		return v
	}
	return t.opened
}
