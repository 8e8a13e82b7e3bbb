package servers

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"
)

// EndSession closes a session of somebody else's, with all its ephemeral nodes, and returns when it is gone; ZooKeeper has no such command, but the
// password by which a client attaches its session is made of the session's number alone. The client is told when it asks next. The server
// must serve; in an ensemble it may be any. ctx bounds it.
func (z *ZooKeeper) EndSession(ctx context.Context, session int64) error {
	return poll(ctx, func() error {
		gone, err := z.endSession(ctx, session)
		if err == nil && !gone {
			err = fmt.Errorf("zookeeper %s: session %#x lives on", z.Addr(), session)
		}
		return err
	})
}

// endSession attaches the session and closes it, and says whether there was none. Its client may be quicker, and attach it again before it is closed.
func (z *ZooKeeper) endSession(ctx context.Context, session int64) (gone bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, wordTime)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", z.Addr())
	if err != nil {
		return false, err
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	password := sessionPassword(session)
	const closeSession = -11
	attach := frame(
		uint32(0), // version of the protocol
		uint64(0), // the last transaction that we have seen
		uint32((10 * time.Second).Milliseconds()), // the timeout, which the server bounds
		session, uint32(len(password)), password,
	)
	if _, err := conn.Write(slices.Concat(attach, frame(uint32(1), int32(closeSession)))); err != nil {
		return false, err
	}
	var attached struct {
		Length, Version, Timeout uint32
		Session                  int64
	}
	if err := binary.Read(conn, binary.BigEndian, &attached); err != nil {
		return false, fmt.Errorf("zookeeper %s does not attach session %#x: %w", z.Addr(), session, err)
	}
	if attached.Session == 0 {
		return true, nil
	}
	_, err = io.Copy(io.Discard, conn) // the server hangs up when it has closed it
	return false, errors.Join(err, ctx.Err())
}

// frame is a packet of ZooKeeper's protocol: its length, and the fields.
func frame(fields ...any) []byte {
	var body []byte
	for _, field := range fields {
		body, _ = binary.Append(body, binary.BigEndian, field) // fails for no type of ours
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

// sessionPassword is what ZooKeeper makes of a session's number: bytes of a java.util.Random, whose generator its documentation gives.
func sessionPassword(session int64) []byte {
	const (
		secret     = 0xB3415C00 // ZooKeeper's: superSecret in SessionTrackerImpl and its like
		multiplier = 0x5DEECE66D
		increment  = 0xB
		mask       = 1<<48 - 1
	)
	seed := (uint64(session) ^ secret ^ multiplier) & mask
	var password []byte
	for range 4 {
		seed = (seed*multiplier + increment) & mask
		password = binary.LittleEndian.AppendUint32(password, uint32(seed>>16))
	}
	return password
}
