package session

import (
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lockurl"
)

// Key is the server's own name of a lock: a decimal bigint on Postgres, 64 characters on MySQL.
type Key string

// Layout maps names to the server's keys. Other programs depend on it: tests pin its results, and changing one is a major version.
type Layout struct {
	prefix string
	exact  func(name string) (Key, error) // not nil: it gives the key
	hash   func(sum [sha256.Size]byte) Key
}

// NewLayout returns the Layout that a backend's options Prefix, NoPrefix and ExactKeys select. hash gives the key of a text by its SHA-256. exact
// gives the key that a name states, or an error of class driver.ErrRefused.
func NewLayout(prefix string, noPrefix, exactKeys bool, exact func(name string) (Key, error), hash func(sum [sha256.Size]byte) Key) (Layout, error) {
	if exactKeys && (noPrefix || prefix != "") {
		return Layout{}, errors.New("the options ExactKeys and Prefix (or NoPrefix) exclude each other")
	}
	prefix, err := lockurl.Prefix(prefix, noPrefix, "lockport:")
	if !exactKeys {
		exact = nil
	}
	return Layout{prefix: prefix, exact: exact, hash: hash}, err
}

// Key returns the key of the lock on name.
func (l Layout) Key(name string) (Key, error) {
	if l.exact != nil {
		return l.exact(name)
	}
	return l.hash(sha256.Sum256([]byte(l.prefix + name))), nil
}

// Permit returns a key of permits: n = 0 is for all permits of the name whose lock is key, n from 1 on for one of the permits of the set key.
func (l Layout) Permit(key Key, n int) Key {
	return l.hash(sha256.Sum256(fmt.Appendf(nil, "lockport.permit:%s:%d", key, n)))
}

// Permits returns the keys of all permits of the name whose lock is key.
func (l Layout) Permits(key Key) []Key {
	set, keys := l.Permit(key, 0), make([]Key, driver.MaxPermits)
	for i := range keys {
		keys[i] = l.Permit(set, i+1)
	}
	return keys
}
