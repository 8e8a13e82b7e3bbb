package session

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"
)

// aloneTime is for how long nobody reads from the socket after an answer: whoever asks meanwhile reads the answer himself, which saves two switches
// between goroutines, and with them half of the time that a request takes. Then the reader goes there.
const aloneTime = 5 * time.Millisecond

// Line is our end of a connection on which one request at a time is under way, as Conn.Do and Conn.Wait are called: a flight. Who asks reads the answer on
// his own goroutine. While nobody asks the line's own goroutine reads, the reader, so that the end of the connection, or what comes unasked, is noticed at
// once; it also reads on for those whose context has ended. The mutex guards all of it, and what its owner likes.
type Line struct {
	sync.Mutex
	o LineOptions

	flight    flight
	landed    chan struct{} // tells who waits in Fly that the reader has landed his flight
	answered  time.Time     // when somebody last left the socket
	reading   bool          // somebody reads from the socket
	watch     *time.Timer   // looks whether an answer is overdue
	watching  bool          // it is running
	attend    *time.Timer   // looks after a socket that has been left alone, or whose reader should go
	attending bool          // it is running
	ended     error         // why the connection has ended; nil: it lives
}

// LineOptions are what a connection has of its own.
type LineOptions struct {
	Socket net.Conn // for writing, and for read deadlines, which are the line's
	// Receive takes what comes from the socket next, and waits for it. One goroutine at a time calls it, without the mutex. Where it finds that a flight has
	// its answer it calls Land. If reading fails it calls Failed, and if that says so End. done: who reads may go.
	Receive func() (done bool)
	// Stays says that the socket must not be left alone, not even for a moment: something is expected to come unasked. The mutex is held.
	Stays func() bool
	// Left, if not nil, is told that nobody reads from the socket any more. The mutex is held.
	Left func()
	// End ends the connection: it calls Line.End.
	End func(cause error)
}

// Flight is a request that is about to be made.
type Flight struct {
	Context  context.Context // of who asks, who leaves when it ends
	Done     func(error)     // called once when it has landed, without the mutex, by who asks or by the reader; it must not block
	Patience time.Duration   // within what time the answer must come; 0: it takes as long as it takes
	Blocks   bool            // at the server, perhaps for long
}

type flight struct {
	Flight
	sent    time.Time
	under   bool  // way
	reads   bool  // who asks reads the answer, and calls Done
	waiting bool  // who asks waits for the reader, and calls Done
	err     error // when it has landed
}

// Init makes a line of a zero one. Until Begin nobody reads.
func (l *Line) Init(o LineOptions) {
	l.o = o
	l.landed = make(chan struct{}, 1)
	l.watch = time.AfterFunc(time.Hour, l.Overdue)
	l.watch.Stop()
	l.attend = time.AfterFunc(time.Hour, l.lookAfter)
	l.attend.Stop()
}

// Ended says why the connection has ended; nil: it has not. The mutex is held.
func (l *Line) Ended() error { return l.ended }

// UnderWay says that a flight has no answer yet. The mutex is held.
func (l *Line) UnderWay() bool { return l.flight.under }

// Fly sends request and returns when f.Done was called, or when its context has ended: then it is called later. The line must live, and no flight be under
// way. The mutex is held before, and not after. The write cannot block: what was sent before has been answered, so that the socket's buffer is empty.
func (l *Line) Fly(f Flight, request []byte) {
	patience := l.flight.Patience
	l.flight = flight{Flight: f, sent: time.Now(), under: true}
	if f.Patience > 0 && (!l.watching || patience != f.Patience) {
		l.watching = true
		l.watch.Reset(f.Patience)
	}
	left := f.Context.Err() != nil
	reads := !left && !l.reading
	l.flight.reads, l.flight.waiting = reads, !left && !reads
	switch {
	case left && !l.reading:
		l.reading = true
		go l.read()
	case reads:
		l.reading = true
		if !f.Blocks {
			l.lookIn()
		}
	}
	_, err := l.o.Socket.Write(request)
	l.Unlock()
	if err != nil {
		l.o.End(err)
	}
	switch {
	case left:
	case reads && f.Blocks: // to look every few milliseconds would be much over a long time
		stop := context.AfterFunc(f.Context, l.lookSoon)
		l.readHere(f.Context)
		stop()
	case reads:
		l.readHere(f.Context)
	default:
		l.awaitReader(f.Context)
	}
}

// awaitReader waits until the reader has landed the flight, or ctx ends.
func (l *Line) awaitReader(ctx context.Context) {
	select {
	case <-l.landed:
	case <-ctx.Done():
		l.Lock()
		inTime := !l.flight.waiting
		l.flight.waiting = false
		l.Unlock()
		if !inTime {
			return
		}
		<-l.landed
	}
	l.flight.Done(l.flight.err)
}

// readHere reads for the flight on the goroutine of who asks, until it has landed or ctx ends: then the reader goes on.
func (l *Line) readHere(ctx context.Context) {
	for {
		l.o.Receive()
		l.Lock()
		if !l.flight.under {
			done, err := l.flight.Done, l.flight.err
			l.flight.reads = false
			l.Leave()
			l.Unlock()
			done(err)
			return
		}
		if ctx.Err() != nil {
			l.flight.reads = false
			l.Unlock()
			go l.read()
			return
		}
		l.Unlock()
	}
}

// read is the reader: it reads until the connection ends, or until something was asked and answered: then it leaves the socket to who asks next.
func (l *Line) read() {
	for {
		done := l.o.Receive()
		l.Lock()
		if l.ended != nil || done && !l.flight.under && !l.o.Stays() {
			l.Leave()
			l.Unlock()
			return
		}
		l.Unlock()
	}
}

// Begin sends the reader to the socket of a new line.
func (l *Line) Begin() {
	l.Lock()
	defer l.Unlock()
	if l.Take() {
		go l.read()
	}
}

// Take takes the socket for who wants to read from it without a flight. false: somebody reads already. The mutex is held.
func (l *Line) Take() bool {
	if l.reading {
		return false
	}
	l.reading = true
	return true
}

// Leave leaves the socket alone for a moment, or to the reader if that is to stay. The mutex is held.
func (l *Line) Leave() {
	l.answered = time.Now()
	if l.ended == nil && l.o.Stays() {
		go l.read()
		return
	}
	l.reading = false
	if l.o.Left != nil {
		l.o.Left()
	}
	l.lookIn()
}

// lookIn has attend look at the socket within aloneTime. The mutex is held.
func (l *Line) lookIn() {
	if !l.attending && l.ended == nil {
		l.attending = true
		l.attend.Reset(aloneTime)
	}
}

// lookSoon is lookIn for who does not have the mutex.
func (l *Line) lookSoon() {
	l.Lock()
	l.lookIn()
	l.Unlock()
}

// lookAfter sends the reader to the socket if it has been left alone for long enough, and sends who reads there and whose context has ended away.
func (l *Line) lookAfter() {
	l.Lock()
	l.attending = false
	if l.ended != nil || l.reading && !l.flight.reads {
		l.Unlock()
		return
	}
	if l.reading {
		if over := l.flight.under && l.flight.Context.Err() != nil; over || !l.flight.Blocks {
			if over {
				_ = l.o.Socket.SetReadDeadline(time.Unix(1, 0))
			}
			l.lookIn()
		}
		l.Unlock()
		return
	}
	if time.Since(l.answered) < aloneTime {
		l.lookIn()
		l.Unlock()
		return
	}
	l.reading = true
	l.Unlock()
	l.read()
}

// Land ends the flight, if one is under way. The mutex is held; what it returns is to be called without.
func (l *Line) Land(err error) (tell func(error)) {
	f := &l.flight
	if !f.under {
		return func(error) {}
	}
	f.under, f.err, f.Context = false, err, nil
	switch {
	case f.reads: // who reads will see
	case f.waiting:
		f.waiting = false
		l.landed <- struct{}{}
	default:
		return f.Done
	}
	return func(error) {}
}

// Overdue ends the connection if an answer has not come in time.
func (l *Line) Overdue() {
	l.Lock()
	f := &l.flight
	asked := f.under && f.Patience > 0 && l.ended == nil
	left := time.Until(f.sent.Add(f.Patience))
	patience := f.Patience
	l.watching = asked && left > 0
	if l.watching {
		l.watch.Reset(left)
	}
	l.Unlock()
	if asked && left <= 0 {
		l.o.End(fmt.Errorf("the server has not answered for %v", patience))
	}
}

// Failed says what a failure of reading means. false: nothing, it was for somebody who has left, and who reads goes on.
func (l *Line) Failed(err error) bool {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return true
	}
	_ = l.o.Socket.SetReadDeadline(time.Time{})
	return false
}

// Again says that the flight goes on with a further request, sent now, whose answer has the same time. The mutex is held.
func (l *Line) Again(now time.Time) { l.flight.sent = now }

// End notes that the connection has ended because of cause, lands the flight and closes the socket. false: it had ended before. The mutex is not held.
// before is called once, with the mutex.
func (l *Line) End(cause error, before func()) bool {
	l.Lock()
	if l.ended != nil {
		l.Unlock()
		return false
	}
	l.ended = cause
	l.watch.Stop()
	before()
	tell := l.Land(cause)
	l.Unlock()
	_ = l.o.Socket.Close()
	go tell(cause)
	return true
}
