package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
)

// openInspector makes a client for a verb that inspects locks. It skips the check of Open, so that a server that can hold no new locks, such as a
// replica, still shows its locks.
func openInspector(verb, rawURL string) (*lockport.Client, error) {
	b, _, err := lockport.DefaultMux().OpenBackend(rawURL)
	if err != nil {
		return nil, libraryError(&lockport.Error{Op: verb, Err: err})
	}
	if err := refuseMemory(verb, b); err != nil {
		return nil, err
	}
	client, err := lockport.New(b, lockport.Logger(nil))
	return client, libraryError(err)
}

// refuseMemory is the error of a verb whose locks must exclude other processes.
func refuseMemory(verb string, b driver.Backend) error {
	if b.Capabilities().Backend == "memory" {
		return usagef("%s: locks in memory are invisible to other processes", verb)
	}
	return nil
}

func inspect(ctx context.Context, client *lockport.Client, name string) (lockport.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	st, err := client.Inspect(ctx, name)
	return st, inspectError(err)
}

// inspectError makes an exitError of an error of Inspect or List. Unless it is about the name, it is about the server, since the URL was valid.
func inspectError(err error) error {
	if err == nil || errors.Is(err, lockport.ErrInvalidName) {
		return libraryError(err)
	}
	return failf(exitUnavailable, "%v", err)
}

// who names the holder of a lock for people.
func who(st lockport.Status) string {
	switch {
	case !st.Held:
		return "nobody"
	case len(st.Others) > 0:
		first, n := st, len(st.Others)
		first.Others = nil
		return fmt.Sprintf("%s; and %d more", who(first), n)
	case st.PID > 0:
		return fmt.Sprintf("%s, pid %d, %s", legible(st.Host), st.PID, legible(st.Label))
	case st.Foreign && st.Owner == "":
		return "foreign, unnamed"
	case st.Foreign:
		return "foreign: " + legible(st.Owner)
	}
	return legible(st.Owner)
}

// quoted is a list of lock names for a sentence.
func quoted(names []string) string {
	var all []string
	for _, name := range names {
		all = append(all, strconv.Quote(name))
	}
	return strings.Join(all, ", ")
}

// plain is s, in quotes if s could be misread or would affect the terminal.
func plain(s string) string {
	if quoted := strconv.Quote(s); s == "" || strings.Contains(s, " ") || quoted != `"`+s+`"` {
		return quoted
	}
	return s
}

// legible is a foreign text made safe to print, and shortened.
func legible(s string) string { return short(plain(s), 100) }

// short is s, or its beginning if it is longer than width.
func short(s string, width int) string {
	if r := []rune(s); len(r) > width {
		return string(r[:width-1]) + "…"
	}
	return s
}
