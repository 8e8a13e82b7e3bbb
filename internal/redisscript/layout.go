package redisscript

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/lockport/lockport/internal/lockurl"
)

// DefaultPrefix begins the keys of locks unless the user sets another prefix.
const DefaultPrefix = "lockport:"

// valuePrefix begins the value of a lock held by a lockport client. Any other value is a foreign client's.
const valuePrefix = "lp1:"

// Readers is the value of a lock held by readers. After the prefix it has the form of an owner id: earlier releases of lockport, which have
// no readers, then queue behind it as behind any lockport client.
const Readers = valuePrefix + "00000000000000000000000000000000:readers"

// ChannelPrefix begins the names of channels; the client's part of its owner ids follows. The scripts publish a letter and an owner id:
// w: its turn has come; c: another client waits for what it holds; l: it was broken by force.
const ChannelPrefix = "lockport.wake:"

// Layout maps names to keys. Clients in other languages rely on it: a change is a major version.
type Layout struct {
	// Prefix begins the key of every lock. It may be empty and must not contain braces.
	Prefix string
}

// NewLayout makes a layout from a backend's options. Braces in the prefix would make part of the key a hash tag, and could put the side keys
// into another cluster slot than the lock.
func NewLayout(prefix string, none bool) (Layout, error) {
	prefix, err := lockurl.Prefix(prefix, none, DefaultPrefix)
	if err == nil && strings.ContainsAny(prefix, "{}") {
		err = fmt.Errorf("the option Prefix %q contains braces", prefix)
	}
	return Layout{Prefix: prefix}, err
}

var escape = strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D")

// Key is the key of the lock on name.
func (l Layout) Key(name string) string { return l.Prefix + escape.Replace(name) }

// Keys are the keys of the lock on name that every script for it needs: the lock and the queue.
func (l Layout) Keys(name string) []string {
	lock := l.Key(name)
	return append(make([]string, 0, 4), lock, Side(lock, QueueKey))
}

// Name is the name whose lock has the key. ok is false if no name has that key.
func (l Layout) Name(key string) (name string, ok bool) {
	rest, ok := strings.CutPrefix(key, l.Prefix)
	if !ok {
		return "", false
	}
	name, err := url.PathUnescape(rest)
	return name, err == nil && name != "" && l.Key(name) == key
}

// QueueKey is the purpose of the queue's key.
const QueueKey = "queue"

// sidePrefix begins the keys that accompany a lock. The braces put them into the lock's slot.
const sidePrefix = "lockport.side:{"

// Side is the side key of the lock with key for the purpose what.
func Side(key, what string) string { return sidePrefix + key + "}:" + what }

// LockOf is the key of the lock that has key, or has it as a side key.
func LockOf(key string) string {
	key, _, _ = strings.Cut(strings.TrimPrefix(key, sidePrefix), "}:")
	return key
}

// Value is the lock's value while owner holds it.
func Value(owner string) string { return valuePrefix + owner }

// Owner is the owner that wrote value into a lock.
func Owner(value string) (owner string, foreign bool) {
	owner, ours := strings.CutPrefix(value, valuePrefix)
	return owner, !ours
}

// GlobEscape returns a SCAN pattern that matches s literally.
func GlobEscape(s string) string { return globEscape.Replace(s) }

var globEscape = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)
