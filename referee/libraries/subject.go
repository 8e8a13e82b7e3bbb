// Package libraries is the one list of other people's lock libraries in this repository. It has each with its own calls, and with what its documentation
// promises. The referee judges them, and bench measures them.
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

// Subject is one way to use a library that is judged.
type Subject struct {
	Name    string
	Library string // as its users call it
	Module  string // whose version is shown; empty: this repository's
	Use     string // what is called, and which settings are not the defaults
	// Environment names the servers, of package environment.
	Environment string
	// Promises are those that the library's documentation makes, by their numbers, each with the words and where they are.
	Promises map[string]string
	// Not are cases of those promises that try what the documentation does not say, each with the reason.
	Not map[string]string
	// Explained says of cases that fail, or of all of a group, which program of repro/ shows what was seen. The page explains each.
	Explained map[string]string

	// Caps are what the library's documentation states, and zero where it states nothing. Where Wake is set, Take can wait.
	Caps driver.Capabilities
	// Open opens a client of the servers of a URL. ctx bounds the opening alone.
	Open func(ctx context.Context, rawURL string, s Settings) (library.Client, error)
	// Remove takes a name from its holder, as an operator would; nil: those cases are not run.
	Remove func(ctx context.Context, rawURL, name string) error
	// IsOp recognises the library's requests; nil: cases that lose a reply to one kind are not run.
	IsOp func(op conformance.Op, request []byte) bool
}

// Settings are what a user of a library chooses.
type Settings struct {
	TTL         time.Duration // of locks or sessions, where the library takes one for all
	Connections int           // the most in a pool of go-redis; 0: its own setting
}

// sessionTTL is that of sessions, and of locks whose library takes one TTL for all, where they are judged.
const sessionTTL = 2 * time.Second

// Subjects are all that are judged: the reference, which must hold all that it promises, and the libraries.
func Subjects() []Subject {
	return []Subject{
		Reference, Redislock, Redsync, Redlock, Rueidislock, EtcdMutex, EtcdSharedSession, ZKLock, GooseSession, GooseTable,
	}
}

// Reference is lockport itself, which is judged by the same rules.
var Reference = Subject{
	Name: "lockport redis", Environment: "redis", Use: "backend/redis, as its own tests use it: the reference",
}

// Backend opens the library as a driver.
func (s Subject) Backend(ctx context.Context, rawURL string) (driver.Backend, error) {
	if s.Name == Reference.Name {
		b, _, err := lockport.DefaultMux().OpenBackend(rawURL)
		return b, err
	}
	client, err := s.Open(ctx, rawURL, Settings{TTL: s.Caps.FixedTTL})
	if err != nil {
		return nil, err
	}
	caps := s.Caps
	caps.Backend = s.Library
	return library.Driver(caps, client), nil
}

// Named is the subject of that name.
func Named(name string) (Subject, error) {
	all := Subjects()
	i := slices.IndexFunc(all, func(s Subject) bool { return s.Name == name })
	if i < 0 {
		var names []string
		for _, s := range all {
			names = append(names, fmt.Sprintf("%q", s.Name))
		}
		return Subject{}, fmt.Errorf("there is no library %q; there are %s", name, strings.Join(names, ", "))
	}
	return all[i], nil
}

// Version is that of a module with which this program is built; empty if it is not.
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

// hosts are the servers that a URL names. It is that of servers of our own, and has no error.
func hosts(rawURL string) []string {
	u, _ := url.Parse(rawURL)
	return strings.Split(u.Host, ",")
}
