// Package lib has the ways to take locks that are measured: lockport's, those of other people's libraries, and the floors, which are the bare commands
// through the same clients. A new one calls [register].
package lib

import (
	"cmp"
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/lockport/lockport/bench/result"
	"github.com/lockport/lockport/internal/lab/measure"
)

// Library is one way to take locks on one family of servers.
type Library struct {
	Name   string // as tables show it
	Family string // whose servers it is for: see package stage
	Kind   Kind
	Module string // the Go module whose version is shown
	How    string // what is called, and which settings are not the defaults, for people

	Renewal Renewal
	// Waits: Acquire waits for who has the name. Without, it is left out wherever somebody waits.
	Waits bool
	// Nothing: no lock is taken at all, only requests are made.
	Nothing bool
	// Only are the beginnings of the names of the scenarios in which there is something to see of it; none: all.
	Only []string
	// MostWaiters and MostHeld are how many of them it is asked for at most, and WhyMost says why; 0: any number.
	MostWaiters, MostHeld int
	WhyMost               string

	// Open opens it for a process. ctx bounds the opening alone.
	Open func(ctx context.Context, c Config) (Locker, error)
}

// Kind is whose it is.
type Kind string

const (
	Ours    Kind = "ours"
	Variant Kind = "variant" // ours with another setting, which nobody is compared with
	Theirs  Kind = "theirs"
	Floor   Kind = "floor" // the bare commands, that no lock can do without
)

// Renewal is what keeps a hold alive for longer than the TTL.
type Renewal string

const (
	Renews     Renewal = "itself"
	LoopEach   Renewal = "a loop for each lock, which its user writes"
	WithServer Renewal = "the session" // of a connection, which needs none
	Never      Renewal = "nothing"
)

// What libraries are opened with, and what they offer.
type (
	Config = measure.Config
	Locker = measure.Locker
	Hold   = measure.Hold
)

// ErrHeld is what Try says of a name that is held.
var ErrHeld = measure.ErrHeld

// WorkerMain is the first line of main, and of TestMain: see [measure.WorkerMain].
func WorkerMain() {
	measure.WorkerMain(func(ctx context.Context, c Config) (Locker, error) {
		l, err := Find(c.Family, c.Library)
		if err != nil {
			return nil, err
		}
		return l.Open(ctx, c)
	})
}

var all []Library

func register(l Library) { all = append(all, l) }

// Register adds a library, for tests. It is to be called before anything runs.
func Register(l Library) { register(l) }

// All are the libraries of a family: ours, then theirs by name, then the floors.
func All(family string) []Library {
	var of []Library
	for _, l := range all {
		if l.Family == family {
			of = append(of, l)
		}
	}
	rank := map[Kind]int{Ours: 0, Variant: 1, Theirs: 2, Floor: 3}
	slices.SortFunc(of, func(a, b Library) int { return cmp.Or(rank[a.Kind]-rank[b.Kind], cmp.Compare(a.Name, b.Name)) })
	return of
}

// Find is the library of that name.
func Find(family, name string) (Library, error) {
	for _, l := range all {
		if l.Family == family && l.Name == name {
			return l, nil
		}
	}
	return Library{}, fmt.Errorf("there is no library %q for %s", name, family)
}

// In says whether it takes part in a scenario.
func (l Library) In(scenario string) bool {
	return len(l.Only) == 0 || slices.ContainsFunc(l.Only, func(beginning string) bool { return strings.HasPrefix(scenario, beginning) })
}

// Most is how many waiters or held locks it is asked for at most in a scenario; 0: any number.
func (l Library) Most(scenario string) int {
	if strings.HasPrefix(scenario, "held-") {
		return l.MostHeld
	}
	return l.MostWaiters
}

// Result is what results say of it.
func (l Library) Result() result.Library {
	return result.Library{
		Family: l.Family, Name: l.Name, Kind: string(l.Kind), Module: l.Module, Version: l.Version(), How: l.How, Renewal: string(l.Renewal),
	}
}

// Version is that of the library's module in this program; empty where it is the program's own.
func (l Library) Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || l.Kind == Ours || l.Kind == Variant {
		return ""
	}
	for _, m := range info.Deps {
		if m.Path == l.Module {
			return m.Version
		}
	}
	return ""
}
