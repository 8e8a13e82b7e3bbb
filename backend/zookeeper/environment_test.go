package zookeeper

import (
	"context"
	"encoding/binary"
	"net/url"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/driver"
)

// Operation codes of the protocol.
const (
	opCreate = 1
	opDelete = 2
	opMulti  = 14
)

// isOp classifies requests by their operation. One write may contain several.
func isOp(op conformance.Op, p []byte) bool {
	wanted := map[conformance.Op]int32{conformance.OpAcquire: opCreate, conformance.OpRenew: opMulti, conformance.OpRelease: opDelete}[op]
	for len(p) >= 12 {
		n := int(binary.BigEndian.Uint32(p)) + 4
		if int32(binary.BigEndian.Uint32(p[8:])) == wanted {
			return true
		}
		if n > len(p) {
			break
		}
		p = p[n:]
	}
	return false
}

// shared is a backend with its caller, which closes the connection.
type shared struct {
	*Backend
	conn *zk.Conn
}

func (s *shared) Close() error {
	err := s.Backend.Close()
	s.conn.Close()
	return err
}

func openShared(_ context.Context, rawURL string) (driver.Backend, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, err
	}
	ttl, err := time.ParseDuration(u.Query().Get("ttl"))
	if err != nil {
		return nil, err
	}
	log := new(Log)
	conn, _, err := zk.Connect(strings.Split(u.Host, ","), ttl, zk.WithLogger(log))
	if err != nil {
		return nil, err
	}
	b, err := NewBackend(conn, Options{Log: log, TTL: ttl, TickTime: 100 * time.Millisecond})
	return &shared{b, conn}, err
}
