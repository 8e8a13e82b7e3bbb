package mysql

import (
	endian "encoding/binary"
	"fmt"
	"net"
	"sync"

	"github.com/lockport/lockport/internal/session"
)

const (
	// readAhead is how much is taken from the socket at once.
	readAhead = 16 << 10
	// maxAhead is how much may lie unread: then the socket is left alone until the client library has read.
	maxAhead = 1 << 20
)

// wire is a connection whose end is seen at once, also while nobody waits for an answer: the server's death, a KILL, a cut. Who waits for an answer reads
// it himself, and while nobody does, the line's reader reads; what that finds is kept for the client library. Safe for one reader, one writer and any
// number of calls of Close.
type wire struct {
	net.Conn
	ended func(error) // called once, from a goroutine of its own
	chunk []byte      // for who reads for the line

	line    session.Line // its mutex guards what follows
	change  sync.Cond    // of what follows
	ahead   []byte       // read, and not asked for yet
	wants   bool         // the client library waits for what the reader brings
	columns int          // of the answer that the flight under way waits for
	reply   reply        // that
	thread  uint32       // the session's number by the server's greeting; 0: not greeted yet
	flags   uint32       // what the client library has said that it can; 0: nothing yet
	seen    int          // of the greeting
	head    [greetingHead]byte
}

// newWire makes a wire of c. ended is told why that ended.
func newWire(c net.Conn, ended func(error)) *wire {
	w := &wire{Conn: c, ended: ended, chunk: make([]byte, readAhead)}
	w.change.L = &w.line
	w.line.Init(session.LineOptions{Socket: c, Receive: w.receive, Stays: func() bool { return false }, Left: w.change.Broadcast, End: w.end})
	return w
}

// Write implements net.Conn.
func (w *wire) Write(p []byte) (int, error) {
	w.line.Lock()
	if w.flags == 0 && len(p) >= 8 {
		w.flags = endian.LittleEndian.Uint32(p[4:])
	}
	w.line.Unlock()
	return w.Conn.Write(p)
}

// isPlain says that what goes over the wire is neither encrypted nor compressed, so that we can ask ourselves.
func (w *wire) isPlain() bool {
	w.line.Lock()
	defer w.line.Unlock()
	return isPlain(w.flags)
}

// ask sends a request of our own, whose answer is then in reply, while the client library has none under way.
func (w *wire) ask(f session.Flight, request []byte, columns int) {
	w.line.Lock()
	err := w.line.Ended()
	if err == nil && len(w.ahead) > 0 {
		err = errNoReply
	}
	if err != nil {
		w.line.Unlock()
		w.end(err)
		f.Done(err)
		return
	}
	w.columns = columns
	w.line.Fly(f, request)
}

// receive reads for the line: the answer to the flight under way, or what the client library will ask for, or the end.
func (w *wire) receive() (done bool) {
	n, err := w.Conn.Read(w.chunk)
	w.line.Lock()
	w.greeted(w.chunk[:n])
	w.ahead = append(w.ahead, w.chunk[:n]...)
	tell := func(error) {}
	done = w.wants
	if w.line.UnderWay() {
		complete, bad := w.reply.read(w.ahead, w.columns, w.flags&flagNoEnds == 0)
		if complete {
			w.ahead = w.ahead[:0]
			tell, done = w.line.Land(nil), true
		} else if bad != nil {
			err = bad
		} else if len(w.ahead) > maxAhead {
			err = errNoReply
		}
	} else {
		w.change.Broadcast()
	}
	for !done && err == nil && w.line.Ended() == nil && len(w.ahead) > maxAhead {
		w.change.Wait()
	}
	w.line.Unlock()
	tell(nil)
	if err != nil && w.line.Failed(err) {
		w.end(ended(err))
	}
	return done
}

// Read implements net.Conn for the client library: what was read ahead, or what comes, or an error once there is nothing more.
func (w *wire) Read(p []byte) (int, error) {
	w.line.Lock()
	defer w.line.Unlock()
	for len(w.ahead) == 0 {
		if err := w.line.Ended(); err != nil {
			return 0, err
		}
		if !w.line.Take() {
			w.wants = true
			w.change.Wait()
			w.wants = false
			continue
		}
		w.line.Unlock()
		n, err := w.Conn.Read(p)
		w.line.Lock()
		w.greeted(p[:n])
		w.line.Leave()
		if err != nil && w.line.Failed(err) {
			w.line.Unlock()
			w.end(ended(err))
			w.line.Lock()
		}
		if n > 0 {
			return n, nil
		}
	}
	n := copy(p, w.ahead)
	if w.ahead = w.ahead[n:]; len(w.ahead) == 0 {
		w.ahead = nil
	}
	w.change.Broadcast()
	return n, nil
}

func ended(err error) error { return fmt.Errorf("the connection to the server has ended (%w)", err) }

// end ends the wire because of err.
func (w *wire) end(err error) {
	if w.line.End(err, w.change.Broadcast) {
		go w.ended(err)
	}
}

// Close implements net.Conn. Who reads is told, at once.
func (w *wire) Close() error {
	w.end(net.ErrClosed)
	return nil
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
			w.thread = endian.LittleEndian.Uint32(number)
			return
		}
	}
}

// number is what the server, or what stands before it, called this session in its greeting.
func (w *wire) number() uint32 {
	w.line.Lock()
	defer w.line.Unlock()
	return w.thread
}
