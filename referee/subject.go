package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/lockport/lockport"
	_ "github.com/lockport/lockport/backend/redis" // the reference
	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/driver"
)

// Subject is one way to use a library that is judged.
type Subject struct {
	Name   string
	Module string // whose version is shown; empty: this repository's
	Use    string // what is called, and which settings are not the defaults
	// Environment names the servers, of package environment.
	Environment string
	// Promises are those that the library's documentation makes, by their numbers, each with the words and where they are.
	Promises map[string]string
	// Not are cases of those promises that try what the documentation does not say, each with the reason.
	Not map[string]string
	// Explained says of cases that fail, or of all of a group, which line of the library, or which of its issues, explains what was seen.
	Explained map[string]string

	Open func(ctx context.Context, rawURL string) (driver.Backend, error)
	// Remove takes a name from its holder, as an operator would; nil: those cases are not run.
	Remove func(ctx context.Context, rawURL, name string) error
	// IsOp recognises the library's requests; nil: cases that lose a reply to one kind are not run.
	IsOp func(op conformance.Op, request []byte) bool
}

// Subjects are all that are judged: the reference, which must hold all that it promises, and the libraries.
func Subjects() []Subject {
	return []Subject{
		reference,
		redislockSubject,
		redsyncOn("redsync, one server", "redis", "one server"),
		redsyncOn("redsync, five servers", "redlock", "five"),
		rueidislockSubject,
		etcdMutex("etcd Mutex", false, "NewSession and NewMutex for each claim, TryLock or Lock, Unlock and Session.Close, as in the example of the package"),
		etcdMutex("etcd Mutex, one session", true, "NewMutex for each claim on one session of the process, TryLock or Lock, and Unlock"),
		zkLockSubject,
		gooseSessionSubject,
		gooseTableSubject,
	}
}

var reference = Subject{
	Name: "lockport redis", Environment: "redis", Use: "backend/redis, as its own tests use it: the reference",
	Promises: func() map[string]string {
		all := make(map[string]string)
		for _, p := range promises {
			all[p.Number] = "docs/guarantees.md"
		}
		return all
	}(),
	Open: func(_ context.Context, rawURL string) (driver.Backend, error) {
		b, _, err := lockport.DefaultMux().OpenBackend(rawURL)
		return b, err
	},
}

// named is the subject of that name.
func named(name string) (Subject, error) {
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
