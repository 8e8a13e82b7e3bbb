// Package compare shows, side by side on real servers, what distributed locks cost and how they fail: it implements "lockport compare". It starts the
// servers itself, as children of this process, or measures a user's own.
//
// Package hazards plays the hazards, package measure measures the costs, and package report renders both.
package compare

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/compare/hazards"
	"github.com/lockport/lockport/conformance/library"
	"github.com/lockport/lockport/internal/lab/measure"
	"github.com/lockport/lockport/internal/lab/report"
	"github.com/lockport/lockport/internal/lab/servers"
)

// WorkerMain is the first line of main, and of TestMain. In a worker process it works and exits; in others it returns at once. The program must
// import the backends.
func WorkerMain() {
	hazards.WorkerMain()
	measure.WorkerMain(func(ctx context.Context, c measure.Config) (library.Client, error) {
		return measure.Open(ctx, c.URL, c.TTL, nil, lockport.Label("compare"))
	})
}

// Options select what to compare. The zero value compares everything on servers that this process starts.
type Options struct {
	// URLs are a user's own servers. Only their costs are measured; no hazard is played and no server is killed. Lock names begin with
	// "lockport-compare-", and all locks are released at the end. Whatever stays by design, such as token counters, is on the backend's page.
	URLs []string
	// Scenarios selects some of [Scenarios]; none: all.
	Scenarios []string
	// Subjects selects some of [Subjects]; none: all. Not with URLs.
	Subjects []string
	// Progress, if not nil, is called with the current step, and the progress of its part, "hazards" or "costs". One goroutine calls it at a time.
	Progress func(part string, done, total int, what string)
}

// Run runs a comparison with options that passed [Options.Check], and returns its observations. When ctx ends, it returns ctx's error within seconds:
// servers and workers have ended, and the servers' folders in os.TempDir are gone. A server that is not installed is in [report.Report.Missing]. A URL
// that cannot be measured is an error. Without URLs, Run removes the variables PG… from this process's environment.
func Run(ctx context.Context, o Options) (*report.Report, error) {
	r := &report.Report{Version: report.Version, Began: time.Now(), Machine: report.ThisMachine()}
	var missing, more []report.Missing
	all, err := userSubjects(ctx, o.URLs)
	if len(o.URLs) == 0 {
		forgetPostgres()
		all = ownSubjects
		r.Cells, missing, err = hazards.Run(ctx,
			func(hazard, subject string) bool { return o.match("hazards", hazard, subject) },
			func(done, total int, what string) { o.tell("hazards", done, total, what) })
		r.Hazards = slices.DeleteFunc(hazards.Hazards(), func(h report.Hazard) bool {
			return !slices.ContainsFunc(r.Cells, func(c report.Cell) bool { return c.Hazard == h.ID })
		})
	}
	if err == nil {
		r.Costs, more, err = o.costs(ctx, all)
	}
	if err != nil {
		return nil, err
	}
	for _, m := range append(missing, more...) {
		if !slices.Contains(r.Missing, m) {
			r.Missing = append(r.Missing, m)
		}
	}
	r.Subjects = present(r, all, servers.Versions(ctx))
	r.Seconds = time.Since(r.Began).Seconds()
	return r, ctx.Err()
}

// forgetPostgres removes the user's settings for Postgres, such as PGSSLMODE, from the environment: clients of our own servers read them.
func forgetPostgres() {
	for _, e := range os.Environ() {
		if name, _, _ := strings.Cut(e, "="); strings.HasPrefix(name, "PG") {
			_ = os.Unsetenv(name)
		}
	}
}

// present are the subjects with results, and the versions of their servers.
func present(r *report.Report, all []subject, versions map[string]string) (seen []report.Subject) {
	for _, s := range all {
		if slices.ContainsFunc(r.Cells, func(c report.Cell) bool { return c.Subject == s.Name }) ||
			slices.ContainsFunc(r.Costs, func(c report.Costs) bool { return c.Subject == s.Name }) {
			s.Servers = strings.TrimSpace(s.Servers + " " + versions[s.kind])
			seen = append(seen, s.Subject)
		}
	}
	return seen
}

// Scenarios are the names for [Options.Scenarios]: the parts, the hazards, and the measurements.
func Scenarios() []string {
	all := []string{"hazards", "costs"}
	for _, h := range hazards.Hazards() {
		all = append(all, h.ID)
	}
	for _, s := range scenarios {
		all = append(all, s.Name)
	}
	return all
}

// Subjects are the names for [Options.Subjects], in display order.
func Subjects() []string {
	var all []string
	for _, s := range ownSubjects {
		all = append(all, s.Name)
	}
	return all
}

// Check finds mistakes in the options, and says in one line how to fix them.
func (o *Options) Check() error {
	if err := known("scenario", o.Scenarios, Scenarios()); err != nil {
		return err
	}
	if err := known("backend", o.Subjects, Subjects()); err != nil {
		return err
	}
	harms := slices.ContainsFunc(hazards.Hazards(), func(h report.Hazard) bool { return o.match("hazards", h.ID, "") })
	switch {
	case len(o.URLs) > 0 && len(o.Subjects) > 0:
		return fmt.Errorf("--url already chooses the backends: leave out --backend")
	case len(o.URLs) > 0 && len(o.Scenarios) > 0 && harms:
		return fmt.Errorf("hazards harm servers, so they never run on those of --url: leave out the hazards or --url")
	}
	return nil
}

func known(what string, names, all []string) error {
	for _, name := range names {
		if !slices.Contains(all, name) {
			return fmt.Errorf("unknown %s %q; known: %s", what, name, strings.Join(all, ", "))
		}
	}
	return nil
}

// match says whether a scenario of a part runs on a subject.
func (o *Options) match(part, name, subject string) bool {
	return (len(o.Scenarios) == 0 || slices.Contains(o.Scenarios, name) || slices.Contains(o.Scenarios, part)) &&
		(len(o.Subjects) == 0 || slices.Contains(o.Subjects, subject))
}

func (o *Options) tell(part string, done, total int, what string) {
	if o.Progress != nil {
		o.Progress(part, done, total, what)
	}
}

// The files that [Write] makes in its folder.
const (
	HTMLFile   = "report.html"
	JSONFile   = "report.json"
	PictureDir = "pictures"
)

// Write writes a report into the folder dir, and makes the folder if needed: as one HTML file, its pictures, and JSON. It
// replaces files of these names, and deletes none.
func Write(dir string, r *report.Report) error {
	if err := os.MkdirAll(filepath.Join(dir, PictureDir), 0o755); err != nil {
		return err
	}
	files := make(map[string][]byte)
	for name, write := range map[string]func(io.Writer) error{HTMLFile: r.HTML, JSONFile: r.JSON} {
		var text bytes.Buffer
		if err := write(&text); err != nil {
			return err
		}
		files[name] = text.Bytes()
	}
	for name, svg := range r.Pictures() {
		files[filepath.Join(PictureDir, name)] = svg
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
