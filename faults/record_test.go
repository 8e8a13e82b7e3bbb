package faults_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/faults"
	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/play"
	"github.com/lockport/lockport/internal/lab/servers"
	"github.com/lockport/lockport/internal/pages"
)

var measuredFile = filepath.Join("..", "docs", "faults.json")

// record adds up what was measured. Safe for concurrent use.
type record struct {
	begun time.Time

	mu       sync.Mutex
	all      faults.Measured
	sum      history.Figures
	unsound  int // phases with an overlap, in safe cells
	lastTold time.Time
}

func newRecord() *record { return &record{begun: time.Now(), lastTold: time.Now()} }

// add takes the figures of a phase, and once a minute tells who waits how far a long run is.
func (r *record) add(a *environment.Environment, c *play.Cell, f history.Figures) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all.Add(a, c, f)
	r.sum.Add(f)
	if c.Outcome.IsSafe() {
		r.unsound += f.Overlapped
	}
	if *forTime > 0 && time.Since(r.lastTold) > time.Minute {
		r.lastTold = time.Now()
		fmt.Fprintln(os.Stderr, r.summary())
	}
}

// summary is one line for people.
func (r *record) summary() string {
	return fmt.Sprintf("%v: %d phases, %d faults, %d acquisitions (%d readers and %d permits beside others), %d phases with an overlap in cells stated to be safe (seed %d)",
		time.Since(r.begun).Round(time.Second), r.all.Run.Phases, r.all.Run.Faults, r.sum.Acquisitions, r.sum.Readers, r.sum.Permits, r.unsound, *seedFlag)
}

// finish tells the sum, and writes it down if that was asked for and nothing has failed.
func (r *record) finish(t *testing.T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t.Log(r.summary())
	for _, a := range faults.All() {
		const many = 300 // acquisitions: so many storms make
		f := r.all.Arrangements[a.Name]
		if f.Acquisitions > many && (a.Readers && f.Readers == 0 || a.Permits && f.Permits == 0) {
			t.Errorf("of %d acquisitions on %s, %d readers came beside another, and %d permits were given beside another: the storms show nothing of them",
				f.Acquisitions, a.Name, f.Readers, f.Permits)
		}
	}
	if !*write || t.Failed() {
		return
	}
	if left := notPlayed(faults.All(), r.all.Cells); len(left) > 0 { // the others' figures alone would take the place of all
		t.Errorf("nothing is written: %d cells were not played, the first of them %s", len(left), left[0])
		return
	}
	r.all.Run.Seed = *seedFlag
	r.all.Run.Machine = fmt.Sprintf("%d processors, %s/%s", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH)
	r.all.Run.Duration = time.Since(r.begun).Round(time.Minute).String()
	r.all.Run.Versions = servers.Versions(context.Background())
	r.all.Run.Versions["go"] = runtime.Version()
	text, err := json.MarshalIndent(r.all, "", "\t")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(measuredFile, append(text, '\n'), 0o644))
	require.NoError(t, flag.Set("update", "true"))
	pages.Holds(t, "guarantees.md", "faults", rendered(t))
	t.Logf("wrote %s and the page of guarantees", measuredFile)
}

// notPlayed are the cells that have no figures, by their keys. Variants count in long runs only.
func notPlayed(all []faults.Environment, played map[string]history.Figures) []string {
	var left []string
	for i := range all {
		a := &all[i]
		for j := range a.Cells {
			key := faults.CellKey(&a.Environment, &a.Cells[j])
			if _, ok := played[key]; !ok && (!a.Variant || *full) {
				left = append(left, key)
			}
		}
	}
	return left
}

// rendered is what the page of guarantees must say: what is stated of all cells, and what the committed run has measured.
func rendered(t *testing.T) string {
	text, err := os.ReadFile(measuredFile)
	require.NoError(t, err)
	var m faults.Measured
	require.NoError(t, json.Unmarshal(text, &m))
	for _, a := range faults.All() {
		for _, c := range a.Cells {
			delete(m.Cells, faults.CellKey(&a.Environment, &c))
		}
	}
	require.Empty(t, m.Cells, "faults that are stated no more: their figures are in the sums")
	require.NoError(t, json.Unmarshal(text, &m))
	return faults.Render(faults.All(), m)
}

// The page says what the code states, and what the committed run has measured.
func TestPage(t *testing.T) { pages.Holds(t, "guarantees.md", "faults", rendered(t)) }
