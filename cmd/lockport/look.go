package main

import (
	"context"
	"errors"
	"time"
	"unicode/utf8"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
)

// lookLimit bounds every look at locks, and every attempt to end one.
const lookLimit = 10 * time.Second

// closeLimit bounds the end of a view: who only looked leaves nothing behind that the server would not clear away itself.
const closeLimit = time.Second

// view is a backend whose locks are looked at. It is no client's: nothing is checked that looking does not need, so that also a
// server that can hold no locks any more (a replica, say) shows those that it has.
type view struct {
	verb      string
	backend   driver.Backend
	caps      driver.Capabilities
	inspector driver.Inspector
	ttl       time.Duration // of clients that use the same URL
}

// openView makes the backend of a URL, for a verb that looks at locks.
func openView(verb, rawURL string) (*view, error) {
	b, ttl, err := lockport.DefaultMux().OpenBackend(rawURL)
	if err != nil {
		return nil, libraryError(&lockport.Error{Op: verb, Err: err})
	}
	if ttl == 0 {
		ttl = lockport.DefaultTTL
	}
	v := &view{verb: verb, backend: b, caps: b.Capabilities(), ttl: ttl}
	var ok bool
	switch v.inspector, ok = driver.As[driver.Inspector](b); {
	case v.caps.Backend == "memory":
		err = usagef("%s: locks in memory are those of one process, which no other can see", verb)
	case !ok:
		err = failf(exitUnavailable, "%s: the backend %s cannot show its locks", verb, v.caps.Backend)
	}
	if err != nil {
		v.close()
		return nil, err
	}
	return v, nil
}

// close frees what the view has opened, or leaves that to the end of the process where it takes long.
func (v *view) close() {
	closed := make(chan struct{})
	go func() { defer close(closed); _ = v.backend.Close() }()
	select {
	case <-closed:
	case <-time.After(closeLimit):
	}
}

// inspect looks at one lock.
func (v *view) inspect(ctx context.Context, name string) (driver.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	st, err := v.inspector.Inspect(ctx, name)
	return st, v.failed(name, err)
}

// list looks at all locks whose names start with prefix. With an error they are not all.
func (v *view) list(ctx context.Context, prefix string) ([]driver.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	all, err := v.inspector.List(ctx, prefix)
	if errors.Is(err, errors.ErrUnsupported) {
		return nil, failf(exitUnavailable, "%v; name the lock: lockport status NAME", v.failed("", err))
	}
	return all, v.failed("", err)
}

// failed makes an exitError of an error of the driver.
func (v *view) failed(name string, err error) error {
	if err == nil {
		return nil
	}
	e := libraryError(&lockport.Error{Op: v.verb, Backend: v.caps.Backend, Name: name, Err: err}).(*exitError)
	if e.code == exitUsage { // the URL and the name were right
		e.code = exitUnavailable
	}
	return e
}

// checkLockName refuses what can be no lock's name.
func checkLockName(name string) error {
	switch {
	case name == "":
		return usagef("the lock's name is empty")
	case len(name) > driver.MaxNameLength:
		return usagef("the lock's name has %d bytes; at most %d are allowed", len(name), driver.MaxNameLength)
	case !utf8.ValidString(name):
		return usagef("the lock's name is not valid UTF-8")
	}
	return nil
}
