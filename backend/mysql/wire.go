package mysql

import (
	"net"
	"sync"
)

const (
	// readAhead is how much is taken from the socket at once.
	readAhead = 16 << 10
	// maxAhead is how much may lie unread: then the socket is left alone until the client library has read.
	maxAhead = 1 << 20
)

// wire is a connection that is always being read, so that its end is seen at once, also while nobody waits for an answer: the server's
// death, a KILL, a cut. What arrives is kept for the client library. Safe for one reader, one writer and any number of calls of Close.
type wire struct {
	net.Conn
	ended func(error) // called once, from the wire's own goroutine

	mu     sync.Mutex
	change sync.Cond // of what follows
	ahead  []byte    // read, and not asked for yet
	err    error     // why there will be no more
	thread uint32    // the session's number by the server's greeting; 0: not greeted yet
	seen   int       // of the greeting
	head   [greetingHead]byte
}

// newWire makes a wire of c, which nobody reads before start. ended is told why that ended.
func newWire(c net.Conn, ended func(error)) *wire {
	w := &wire{Conn: c, ended: ended}
	w.change.L = &w.mu
	return w
}

// start begins to read.
func (w *wire) start() { go w.pump() }

// pump reads until the socket ends.
func (w *wire) pump() {
	chunk := make([]byte, readAhead)
	for {
		n, err := w.Conn.Read(chunk)
		w.mu.Lock()
		w.greeted(chunk[:n])
		w.ahead = append(w.ahead, chunk[:n]...)
		if w.err == nil { // Close may have come first
			w.err = err
		}
		w.change.Broadcast()
		for w.err == nil && len(w.ahead) > maxAhead {
			w.change.Wait()
		}
		err = w.err
		w.mu.Unlock()
		if err != nil {
			_ = w.Conn.Close()
			w.ended(err)
			return
		}
	}
}

// Read implements net.Conn: what was read ahead, or an error once that is used up.
func (w *wire) Read(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.ahead) == 0 && w.err == nil {
		w.change.Wait()
	}
	if len(w.ahead) == 0 {
		return 0, w.err
	}
	full := len(w.ahead) > maxAhead
	n := copy(p, w.ahead)
	w.ahead = w.ahead[n:]
	if len(w.ahead) == 0 {
		w.ahead = nil
	}
	if full {
		w.change.Broadcast()
	}
	return n, nil
}

// Close implements net.Conn. Who reads is told, at once.
func (w *wire) Close() error {
	err := w.Conn.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = net.ErrClosed
	}
	w.change.Broadcast()
	return err
}

// greetingHead is as much of the server's first packet as holds the session's number: a header of four bytes, the version of
// the protocol, the server's own as text that ends with a zero, and four bytes with the number.
// https://mariadb.com/kb/en/connection/#initial-handshake-packet
const greetingHead = 4 + 1 + 128 + 4

// greeted looks for the session's number in what the server says first. The mutex is held.
func (w *wire) greeted(p []byte) {
	if w.thread != 0 || w.seen == len(w.head) || len(p) == 0 {
		return
	}
	w.seen += copy(w.head[w.seen:], p)
	said := w.head[:w.seen]
	if len(said) < 5 || said[4] != 10 {
		return
	}
	for i, b := range said[5:] {
		if number := said[5:][i+1:]; b == 0 && len(number) >= 4 {
			w.thread = uint32(number[0]) | uint32(number[1])<<8 | uint32(number[2])<<16 | uint32(number[3])<<24
			return
		}
	}
}

// number is what the server, or what stands before it, called this session in its greeting.
func (w *wire) number() uint32 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.thread
}
