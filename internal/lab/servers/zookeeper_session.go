package servers

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
)

// EndSession closes another client's session, with all its ephemeral nodes, and returns when it is gone. ZooKeeper has no such command, but the
// password that resumes a session depends on the session's number alone. The client learns of it with its next request. The server must serve; in
// an ensemble any node will do. ctx bounds it.
func (z *ZooKeeper) EndSession(ctx context.Context, session int64) error {
	return Poll(ctx, func(ctx context.Context) error {
		gone, err := z.endSession(ctx, session)
		if err == nil && !gone {
			err = fmt.Errorf("zookeeper %s: session %#x still exists", z.Addr(), session)
		}
		return err
	})
}

// endSession resumes the session and closes it, and reports whether the session did not exist. The client may resume it again first.
func (z *ZooKeeper) endSession(ctx context.Context, session int64) (gone bool, err error) {
	err = exchange(ctx, z.Addr(), func(conn net.Conn) error {
		const closeSession = -11
		if err := binary.Write(conn, binary.BigEndian, struct { // two packets, each preceded by its length
			Length, Version uint32
			LastSeen        int64
			Timeout         uint32 // the server may change it
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
			return fmt.Errorf("cannot resume session %#x: %w", session, err)
		}
		if gone = attached.Session == 0; gone {
			return nil
		}
		_, err := io.Copy(io.Discard, conn) // the server disconnects once the session is closed
		return err
	})
	return gone, err
}

// sessionPassword computes a session's password as ZooKeeper does: bytes of a java.util.Random seeded with the session's number.
func sessionPassword(session int64) (password [16]byte) {
	const (
		secret     = 0xB3415C00 // superSecret in ZooKeeper's ZooKeeperServer
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
