package main

import (
	"strconv"
	"strings"

	"github.com/lockport/lockport"
)

// heldLock is what the command may want to know of its lock.
type heldLock interface {
	Name() string
	Owner() string
	Token() (lockport.Token, bool)
}

// environment is what the command finds in its environment: what lockport found there, and the lock, set last so that
// nothing inherited wins. LOCKPORT_TOKEN is missing where the backend has no tokens: a stale one would be worse than none.
func environment(inherited []string, backend string, lock heldLock) []string {
	env := without(inherited, "LOCKPORT_NAME", "LOCKPORT_OWNER", "LOCKPORT_BACKEND", "LOCKPORT_TOKEN")
	env = append(env, "LOCKPORT_NAME="+lock.Name(), "LOCKPORT_OWNER="+lock.Owner(), "LOCKPORT_BACKEND="+backend)
	if token, ok := lock.Token(); ok {
		env = append(env, "LOCKPORT_TOKEN="+strconv.FormatUint(uint64(token), 10))
	}
	return env
}

// without returns env without the variables names.
func without(env []string, names ...string) []string {
	var kept []string
next:
	for _, e := range env {
		for _, name := range names {
			if firstOf(e, "=") == name {
				continue next
			}
		}
		kept = append(kept, e)
	}
	return kept
}

// firstOf is what stands in s before sep.
func firstOf(s, sep string) string {
	first, _, _ := strings.Cut(s, sep)
	return first
}
