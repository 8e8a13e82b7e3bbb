package redisscript

import (
	"fmt"
	"net/url"
	"strings"
	"unicode/utf8"
)

// DefaultPrefix is what the keys of locks begin with unless the user says otherwise.
const DefaultPrefix = "lockport:"

// valuePrefix begins the value of a lock that a lockport client holds. Any other value is a foreign client's.
const valuePrefix = "lp1:"

// Readers is the value of a lock that readers hold. What follows the prefix has the form of an owner id, so that earlier releases of lockport, which know no
// readers, queue behind it as behind another client of lockport.
const Readers = valuePrefix + "00000000000000000000000000000000:readers"

// Layout maps names to keys. Changing it is a major version: other clients, in other languages, rely on it.
type Layout struct {
	// Prefix begins the key of every lock. It may be empty and has no braces.
	Prefix string
}

// Check holds the rules for a prefix. Braces would make a hash tag of a part of the key, so that the side keys could fall
// into another slot of a cluster than the lock.
func (l Layout) Check() error {
	if strings.ContainsAny(l.Prefix, "{}") || !utf8.ValidString(l.Prefix) {
		return fmt.Errorf("the key prefix %q must be valid UTF-8 without braces", l.Prefix)
	}
	return nil
}

var escape = strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D")

// Key is the key of the lock on name.
func (l Layout) Key(name string) string { return l.Prefix + escape.Replace(name) }

// Name is the name whose lock has the key. ok is false for a key that no name has.
func (l Layout) Name(key string) (name string, ok bool) {
	rest, ok := strings.CutPrefix(key, l.Prefix)
	if !ok {
		return "", false
	}
	name, err := url.PathUnescape(rest)
	return name, err == nil && name != "" && l.Key(name) == key
}

// sidePrefix begins the keys that accompany a lock. The braces put them into the slot of the lock itself.
const sidePrefix = "lockport.side:{"

// Side is the key that accompanies the lock with the key for the purpose what.
func Side(key, what string) string { return sidePrefix + key + "}:" + what }

// SideOf is the key of the lock that the side key for what accompanies.
func SideOf(side, what string) (key string, ok bool) {
	key, ok = strings.CutPrefix(side, sidePrefix)
	if !ok {
		return "", false
	}
	return strings.CutSuffix(key, "}:"+what)
}

// Value is what the claim of owner writes into its lock.
func Value(owner string) string { return valuePrefix + owner }

// Owner is who wrote value into a lock.
func Owner(value string) (owner string, foreign bool) {
	owner, ours := strings.CutPrefix(value, valuePrefix)
	return owner, !ours
}

// GlobEscape makes a pattern of SCAN of s that matches s itself.
func GlobEscape(s string) string {
	return globEscape.Replace(s)
}

var globEscape = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)
