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

// record sums up the figures. Safe for concurrent use.
type record struct {
	begun time.Time

	mu       sync.Mutex
	all      faults.Measured
	lastTold time.Time
}

func newRecord() *record { return &record{begun: time.Now(), lastTold: time.Now()} }

// add takes the figures of a phase. Once a minute it prints the progress of a long run.
func (r *record) add(a *environment.Environment, c *play.Cell, f history.Figures) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all.Add(a, c, f)
	if *forTime > 0 && time.Since(r.lastTold) > time.Minute {
		r.lastTold = time.Now()
		fmt.Fprintln(os.Stderr, r.summary())
	}
}

// summary is one line for people.
func (r *record) summary() string {
	return fmt.Sprintf("%v: %d phases, %d faults (seed %d)", time.Since(r.begun).Round(time.Second), r.all.Run.Phases, r.all.Run.Faults, *seedFlag)
}

// finish logs the sum. With -write it also writes the figures, unless a test failed.
func (r *record) finish(t *testing.T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t.Log(r.summary())
	for _, a := range faults.All() {
		const many = 300 // acquisitions that only storms reach
		f := r.all.Arrangements[a.Name]
		if f.Acquisitions > many && (a.Readers && f.Readers == 0 || a.Permits && f.Permits == 0) {
			t.Errorf("of %d acquisitions on %s, %d readers joined another, and %d permits were granted beside another: the storms do not test them",
				f.Acquisitions, a.Name, f.Readers, f.Permits)
		}
	}
	if !*write || t.Failed() {
		return
	}
	for _, key := range allCells() { // figures of some cells must not replace those of all
		require.Contains(t, r.all.Cells, key, "nothing is written: a cell was not played")
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

// allCells are the keys of the cells of all environments.
func allCells() (keys []string) {
	for _, a := range faults.All() {
		for _, c := range a.Cells {
			keys = append(keys, faults.CellKey(&a.Environment, &c))
		}
	}
	return keys
}

// rendered is the section of the page of guarantees: what all cells state, and what the committed run measured.
func rendered(t *testing.T) string {
	text, err := os.ReadFile(measuredFile)
	require.NoError(t, err)
	var m faults.Measured
	require.NoError(t, json.Unmarshal(text, &m))
	for key := range m.Cells {
		require.Contains(t, allCells(), key, "the table lacks this fault, but its figures are in the sums")
	}
	return faults.Render(faults.All(), m)
}

// The page matches the code and the committed run.
func TestPage(t *testing.T) { pages.Holds(t, "guarantees.md", "faults", rendered(t)) }
