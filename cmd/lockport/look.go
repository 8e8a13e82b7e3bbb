package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
)

// lookLimit bounds every look at locks, and every attempt to end one.
const lookLimit = 10 * time.Second

// closeLimit bounds the end of a view: looking leaves nothing behind that the server would not clear away itself.
const closeLimit = time.Second

// view shows the locks of a backend. Its client is not checked by opening it, so that also a server that can hold no locks any more (a replica, say) shows
// those that it has.
type view struct {
	*lockport.Client
	caps driver.Capabilities
	ttl  time.Duration // of clients that use the same URL
}

// openView makes the client of a URL, for a verb that looks at locks.
func openView(verb, rawURL string) (*view, error) {
	b, ttl, err := lockport.DefaultMux().OpenBackend(rawURL)
	if err != nil {
		return nil, libraryError(&lockport.Error{Op: verb, Err: err})
	}
	if ttl == 0 {
		ttl = lockport.DefaultTTL
	}
	client, err := lockport.New(b, lockport.Logger(nil))
	if err != nil {
		return nil, errors.Join(libraryError(err), b.Close())
	}
	v := &view{client, b.Capabilities(), ttl}
	if v.caps.Backend == "memory" {
		v.close()
		return nil, usagef("%s: locks in memory are invisible to other processes", verb)
	}
	return v, nil
}

// close frees what the view has opened, or leaves that to the end of the process where it takes long.
func (v *view) close() {
	closed := make(chan struct{})
	go func() { defer close(closed); _ = v.Close() }()
	select {
	case <-closed:
	case <-time.After(closeLimit):
	}
}

// inspect looks at one lock.
func (v *view) inspect(ctx context.Context, name string) (lockport.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	st, err := v.Inspect(ctx, name)
	return st, lookError(err)
}

// lookError makes an exitError of an error of a look. If it is not about the name, it is about the server: the URL was right.
func lookError(err error) error {
	if err == nil {
		return nil
	}
	e := libraryError(err).(*exitError)
	if e.code == exitUsage && !errors.Is(err, lockport.ErrInvalidName) {
		e.code = exitUnavailable
	}
	return e
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

// holder says of the first of names that is held who has it and since when, as far as that is known.
func holder(ctx context.Context, client *lockport.Client, names []string) (name, by string) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	for _, name := range names {
		switch st, err := client.Inspect(ctx, name); {
		case err != nil || !st.Held || st.Owner == "":
		case st.Since.IsZero():
			return name, who(st)
		default:
			return name, who(st) + " since " + st.Since.Local().Format(time.DateTime)
		}
	}
	return names[0], "another client"
}

// plain is a name as it is, where that shows what it is and where it ends; else in quotes.
func plain(name string) string {
	odd := func(r rune) bool { return r == ' ' || r == '"' || r == '\\' || !strconv.IsPrint(r) }
	if name == "" || strings.ContainsFunc(name, odd) {
		return strconv.Quote(name)
	}
	return name
}

// legible is what a client wrote, in quotes where it would play with the terminal, and not much of it.
func legible(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) || !utf8.ValidString(s) {
		s = strconv.Quote(s)
	}
	return short(s, 100)
}

// short is s, or its beginning if it is longer than width.
func short(s string, width int) string {
	if r := []rune(s); len(r) > width {
		return string(r[:width-1]) + "…"
	}
	return s
}
