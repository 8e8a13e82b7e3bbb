package mysql

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/session"
)

const (
	defaultPrefix = "lockport:"
	// maxKey is how long a lock's name may be at the server: MySQL's limit. MariaDB's is 192.
	maxKey = 64
)

// layout says which name a lock has at the server.
type layout struct {
	prefix string
	exact  bool
}

// key is the name that GET_LOCK is given for a lock: the SHA-256 of the prefix and the name, in 64 lower-case hexadecimal digits, or the name
// itself, without a space at its end, which the collation of the table's key takes no notice of. An error is driver.ErrRefused.
func (l layout) key(name string) (session.Key, error) {
	if !l.exact {
		sum := sha256.Sum256([]byte(l.prefix + name))
		return session.Key(hex.EncodeToString(sum[:])), nil
	}
	if len(name) > maxKey || strings.HasSuffix(name, " ") || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r > '~' || r == '\\' || r == '\'' }) {
		return "", fmt.Errorf("%w: with exact keys a name has 1 to %d characters of printable ASCII without quote and backslash, the last no space", driver.ErrRefused, maxKey)
	}
	return session.Key(name), nil
}

// literal is the key in SQL. It has neither quotes nor backslashes.
func literal(key session.Key) string { return "'" + string(key) + "'" }

// binary is text in SQL, whatever it contains.
func binary(text string) string {
	if text == "" {
		return "''"
	}
	return "x'" + hex.EncodeToString([]byte(text)) + "'"
}
