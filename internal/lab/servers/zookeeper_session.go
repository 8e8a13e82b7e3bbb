package servers

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
)

// EndSession closes a session of somebody else's, with all its ephemeral nodes, and returns when it is gone. ZooKeeper has no such command, but
// the password by which a client attaches its session is made of the session's number alone. The client is told when it asks next. The server
// must serve; in an ensemble it may be any. ctx bounds it.
func (z *ZooKeeper) EndSession(ctx context.Context, session int64) error {
	return Poll(ctx, func(ctx context.Context) error {
		gone, err := z.endSession(ctx, session)
		if err == nil && !gone {
			err = fmt.Errorf("zookeeper %s: session %#x lives on", z.Addr(), session)
		}
		return err
	})
}

// endSession attaches the session and closes it, and says whether there was none. Its client may be quicker, and attach it again before it is closed.
func (z *ZooKeeper) endSession(ctx context.Context, session int64) (gone bool, err error) {
	err = exchange(ctx, z.Addr(), func(conn net.Conn) error {
		const closeSession = -11
		if err := binary.Write(conn, binary.BigEndian, struct { // two packets, which begin with their lengths
			Length, Version uint32
			LastSeen        int64
			Timeout         uint32 // which the server bounds
			Session         int64
			PasswordLength  uint32
			Password        [16]byte
			Length2, Number uint32
			Operation       int32
		}{44, 0, 0, 10_000, session, 16, sessionPassword(session), 8, 1, closeSession}); err != nil {
			return err
		}
		var attached struct {
			Length, Version, Timeout uint32
			Session                  int64
		}
		if err := binary.Read(conn, binary.BigEndian, &attached); err != nil {
			return fmt.Errorf("does not attach session %#x: %w", session, err)
		}
		if gone = attached.Session == 0; gone {
			return nil
		}
		_, err := io.Copy(io.Discard, conn) // the server hangs up when it has closed it
		return err
	})
	return gone, err
}

// sessionPassword is what ZooKeeper makes of a session's number: bytes of a java.util.Random, whose generator its documentation gives.
func sessionPassword(session int64) (password [16]byte) {
	const (
		secret     = 0xB3415C00 // ZooKeeper's: superSecret in SessionTrackerImpl and its like
		multiplier = 0x5DEECE66D
		increment  = 0xB
		mask       = 1<<48 - 1
	)
	seed := (uint64(session) ^ secret ^ multiplier) & mask
	for i := 0; i < len(password); i += 4 {
		seed = (seed*multiplier + increment) & mask
		binary.LittleEndian.PutUint32(password[i:], uint32(seed>>16))
	}
	return password
}
