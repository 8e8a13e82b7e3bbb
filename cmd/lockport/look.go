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
)

// openView makes a client for a verb that looks at locks. It is not checked by opening it, so that also a server that can hold no locks any more (a
// replica, say) shows those that it has.
func openView(verb, rawURL string) (*lockport.Client, error) {
	b, _, err := lockport.DefaultMux().OpenBackend(rawURL)
	if err != nil {
		return nil, libraryError(&lockport.Error{Op: verb, Err: err})
	}
	client, err := lockport.New(b, lockport.Logger(nil))
	if err != nil {
		return nil, errors.Join(libraryError(err), b.Close())
	}
	if client.Capabilities().Backend == "memory" {
		return nil, errors.Join(usagef("%s: locks in memory are invisible to other processes", verb), client.Close())
	}
	return client, nil
}

// inspect looks at one lock.
func inspect(ctx context.Context, client *lockport.Client, name string) (lockport.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	st, err := client.Inspect(ctx, name)
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

// plain is a text as it is, where that shows what it is and where it ends, and does not play with the terminal; else in quotes.
func plain(s string) string {
	odd := func(r rune) bool { return r == ' ' || r == '"' || r == '\\' || !strconv.IsPrint(r) }
	if s == "" || strings.ContainsFunc(s, odd) || !utf8.ValidString(s) {
		return strconv.Quote(s)
	}
	return s
}

// legible is what a client wrote, and not much of it.
func legible(s string) string { return short(plain(s), 100) }

// short is s, or its beginning if it is longer than width.
func short(s string, width int) string {
	if r := []rune(s); len(r) > width {
		return string(r[:width-1]) + "…"
	}
	return s
}
