package zookeeper

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"time"
)

// passwordBytes is how long the password of a session is.
const passwordBytes = 16

// connectRequest is the packet that opens a session, or, where it names one, attaches it.
func connectRequest(session int64, password []byte, timeout time.Duration) []byte {
	// Length, protocol version, last transaction seen, timeout in milliseconds, session, and its password.
	p := make([]byte, 4+4+8+4+8+4+passwordBytes)
	binary.BigEndian.PutUint32(p, uint32(len(p)-4))
	binary.BigEndian.PutUint32(p[16:], uint32(timeout.Milliseconds()))
	binary.BigEndian.PutUint64(p[20:], uint64(session))
	binary.BigEndian.PutUint32(p[28:], passwordBytes)
	copy(p[32:], password)
	return p
}

var errNoAnswer = errors.New("accepted the connection and did not answer")

// openAndClose opens or attaches a session and closes it, in one write, so that the server has not only heard of the session if its reply is
// lost. It returns the timeout granted; 0: there is no such session. closed: the server says that the session is closed.
func openAndClose(conn net.Conn, request []byte) (granted time.Duration, closed bool, err error) {
	bye := newFrame(opClose)
	bye.number(1)
	if _, err := conn.Write(slices.Concat(request, bye)); err != nil {
		return 0, false, err
	}
	var reply [20]byte // length, protocol version, timeout, session
	if _, err := io.ReadFull(conn, reply[:]); err != nil {
		return 0, false, fmt.Errorf("%w: %w", errNoAnswer, err)
	}
	granted = time.Duration(int32(binary.BigEndian.Uint32(reply[8:]))) * time.Millisecond
	if binary.BigEndian.Uint64(reply[12:]) == 0 {
		return 0, true, nil
	}
	rest := int64(binary.BigEndian.Uint32(reply[:])) - 16
	if _, err := io.CopyN(io.Discard, conn, rest); err != nil {
		return granted, false, nil
	}
	var closing [20]byte // length, request, transaction, error
	if _, err := io.ReadFull(conn, closing[:]); err != nil {
		return granted, false, nil
	}
	return granted, binary.BigEndian.Uint32(closing[16:]) == 0, nil
}

// Bounds of the pauses between attempts to connect, once each server was tried.
const (
	minPause = 50 * time.Millisecond
	maxPause = 500 * time.Millisecond
)

// pauseAfter is the pause after so many rounds in vain.
func pauseAfter(rounds int) time.Duration {
	if rounds == 0 {
		return 0
	}
	d := min(minPause<<min(rounds-1, 10), maxPause)
	return d - rand.N(d/5)
}
