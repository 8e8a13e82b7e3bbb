package postgres

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/session"
)

// layout says under which keys the server knows the locks. Other programs depend on it: the golden vectors in docs/backends/postgres.md are
// tested, and a change of them is a change of major version.
type layout struct {
	prefix string
	exact  bool
}

// key is the advisory lock on name: the first 8 bytes, big-endian, of SHA-256(prefix+name) as a signed number; or with exact keys the number that
// name is.
func (l layout) key(name string) (int64, error) {
	if l.exact {
		n, err := strconv.ParseInt(name, 10, 64)
		if err != nil || strconv.FormatInt(n, 10) != name { // "007" and "7" would be two names of one lock
			return 0, fmt.Errorf("%w: the name %q is no key: with exact keys, names are numbers of 64 bits such as 42 or -7", driver.ErrRefused, name)
		}
		return n, nil
	}
	return first64(l.prefix + name), nil
}

// sessionKey is key for the engine.
func (l layout) sessionKey(name string) (session.Key, error) {
	n, err := l.key(name)
	return session.Key(strconv.FormatInt(n, 10)), err
}

func first64(text string) int64 {
	sum := sha256.Sum256([]byte(text))
	return int64(binary.BigEndian.Uint64(sum[:]))
}

// side is the lock, in the space of two 32-bit keys, that who waits for key holds in shared mode: by it a release sees whether anybody is
// to be told.
func side(key int64) (hi, lo int32) {
	n := uint64(first64("lockport.side:" + strconv.FormatInt(key, 10)))
	return int32(n >> 32), int32(n)
}
