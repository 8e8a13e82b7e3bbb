// Package libraries is this repository's one list of other lock libraries: each library's calls, and the promises in its documentation. The referee
// judges them, and bench measures them.
package libraries

import (
	"context"
	"fmt"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/lockport/lockport"
	_ "github.com/lockport/lockport/backend/redis" // the reference
	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/conformance/library"
	"github.com/lockport/lockport/driver"
)

// Subject is one way to use a library.
type Subject struct {
	Name    string
	Library string // the library's usual name
	Module  string // the module whose version is shown; empty: this repository
	Use     string // the calls, and settings other than the defaults
	// Environment names the servers, in package environment.
	Environment string
	// Promises are the promises in the library's documentation, by number. Each is quoted, with its place.
	Promises map[string]string
	// Not are cases of those promises that test something the documentation does not promise, each with the reason.
	Not map[string]string
	// Explained maps failing cases or groups to the reproduction in package repro. The page explains each.
	Explained map[string]string

	// Caps are the capabilities that the library's documentation states, otherwise zero. If Wake is set, Take can wait.
	Caps driver.Capabilities
	// Open is nil for lockport itself.
	Open Opener
	// Remove takes a name away from its holder, as an operator would. Nil: cases that need it are not run. Only P3b and P7 have such cases.
	Remove func(ctx context.Context, rawURL, name string) error
	// IsOp recognizes the library's requests. Nil: cases that lose a reply to one kind of request are not run.
	IsOp func(op conformance.Op, request []byte) bool
}

// Opener opens a client of a URL's servers. ctx bounds the opening alone. ttl is for libraries with one TTL for all locks or sessions.
type Opener = func(ctx context.Context, rawURL string, ttl time.Duration) (library.Client, error)

// sessionTTL is the TTL, when judged, of sessions and of libraries with one TTL for all locks.
const sessionTTL = 2 * time.Second

// Subjects returns all judged subjects: the reference, which must keep all its promises, and the libraries.
func Subjects() []Subject {
	return []Subject{
		Reference, Redislock, Redsync, Redlock, Rueidislock, EtcdMutex, EtcdSharedSession, ZKLock,
	}
}

// Reference is lockport itself, judged by the same rules.
var Reference = Subject{
	Name: "lockport redis", Environment: "redis", Use: "the reference: backend/redis, as in its own tests",
	Promises: map[string]string{
		"P1": guarantees, "P2": guarantees, "P3a": guarantees, "P3b": guarantees, "P4": guarantees, "P5": guarantees,
		"P6": guarantees, "P7": guarantees, "P8": guarantees, "P9": guarantees, "P10": guarantees, "P11": guarantees,
	},
}

const guarantees = "docs/guarantees.md"

// Backend opens the library as a driver.
func (s Subject) Backend(ctx context.Context, rawURL string) (driver.Backend, error) {
	if s.Open == nil {
		b, _, err := lockport.DefaultMux().OpenBackend(rawURL)
		return b, err
	}
	client, err := s.Open(ctx, rawURL, s.Caps.FixedTTL)
	if err != nil {
		return nil, err
	}
	caps := s.Caps
	caps.Backend = s.Library
	return library.Driver(caps, client), nil
}

// Named returns the subject of that name.
func Named(name string) (Subject, error) {
	all := Subjects()
	i := slices.IndexFunc(all, func(s Subject) bool { return s.Name == name })
	if i < 0 {
		var names []string
		for _, s := range all {
			names = append(names, fmt.Sprintf("%q", s.Name))
		}
		return Subject{}, fmt.Errorf("unknown library %q; known are %s", name, strings.Join(names, ", "))
	}
	return all[i], nil
}

// Version returns the version of a module in this program, or "".
func Version(module string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == module {
				return m.Version
			}
		}
	}
	return ""
}

// Either returns a if first is set, and otherwise b.
func Either[T any](first bool, a, b T) T {
	if first {
		return a
	}
	return b
}

// HeldIf returns driver.ErrHeld if another holder has the name, and otherwise err.
func HeldIf(another bool, err error) error { return Either(another, driver.ErrHeld, err) }

// hosts returns the servers of a URL. The URL is one of our servers', so it is valid.
func hosts(rawURL string) []string {
	u, _ := url.Parse(rawURL)
	return strings.Split(u.Host, ",")
}
