package compare

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockport/lockport/compare/hazards"
	"github.com/lockport/lockport/internal/lab/report"
	"github.com/lockport/lockport/internal/lab/servers"
)

// WorkerMain is the first line of main, and of TestMain: in a process that was started as a worker of a comparison it works and exits, in others it
// returns at once. The program must import the backends.
func WorkerMain() {
	hazards.WorkerMain()
	measureWorkerMain()
}

// Options say what to compare. The zero value is the quick set of everything on servers of our own.
type Options struct {
	// URLs are a user's own servers. Their costs are measured, and nothing that would do them harm: no hazards, no server is killed. Names are of our own
	// ("lockport-compare-…"), and everything is released at the end; what stays for a while by design, such as counters of tokens, is on the backend's page.
	URLs []string
	// Full runs every scenario, and oftener: about 15 minutes instead of three.
	Full bool
	// Scenarios limits it to these of [Scenarios]; none: all.
	Scenarios []string
	// Subjects limits it to these of [Subjects]; none: all. Not with URLs.
	Subjects []string
	// Progress, if not nil, is told what is done, and how much of how much of this part. Parts are "hazards" and "costs". It is called from one goroutine
	// at a time.
	Progress func(part string, done, total int, what string)
}

// Run runs a comparison, and returns what it observed. When ctx ends it returns within seconds with its error: servers and workers have ended, and the
// folders of the servers, which are in os.TempDir, are gone. A server that is not installed is [report.Report.Missing]; a URL that cannot be measured is
// an error.
func Run(ctx context.Context, o Options) (*report.Report, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	r := &report.Report{Version: report.Version, Began: time.Now(), Full: o.Full, Machine: machine()}
	var missing, more []report.Missing
	var err error
	if o.has("hazards") {
		progress := func(done, total int, what string) { o.tell("hazards", done, total, what) }
		if r.Cells, missing, err = hazards.Run(ctx, hazards.Options{Full: o.Full, Match: o.match, Progress: progress}); err != nil {
			return nil, err
		}
		r.Hazards = slices.DeleteFunc(hazards.Hazards(), func(h report.Hazard) bool {
			return !slices.ContainsFunc(r.Cells, func(c report.Cell) bool { return c.Hazard == h.ID })
		})
	}
	all := ours
	if len(o.URLs) > 0 {
		if all, err = theirs(ctx, o.URLs); err != nil {
			return nil, err
		}
	}
	if o.has("costs") {
		p := quick
		if o.Full {
			p = full
		}
		if r.Costs, more, err = o.costs(ctx, all, p); err != nil {
			return nil, err
		}
	}
	r.Missing = once(append(missing, more...))
	r.Subjects = present(r, all, servers.Versions(ctx))
	r.Seconds = time.Since(r.Began).Seconds()
	return r, ctx.Err()
}

// present are the subjects of which r has something, with the versions of their servers.
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

// once has each element once.
func once[T comparable](all []T) (some []T) {
	for _, one := range all {
		if !slices.Contains(some, one) {
			some = append(some, one)
		}
	}
	return some
}

// Scenarios are the names that [Options.Scenarios] may have: the parts, the hazards, and what is measured.
func Scenarios() []string {
	all := []string{"hazards", "costs"}
	for _, h := range hazards.Hazards() {
		all = append(all, h.ID)
	}
	for _, s := range scenarios {
		all = append(all, s.name)
	}
	return all
}

// Subjects are the names that [Options.Subjects] may have, in the order in which they are shown.
func Subjects() []string {
	var all []string
	for _, s := range ours {
		all = append(all, s.Name)
	}
	return all
}

// Check finds mistakes in the options, and says in one line what would be right.
func (o *Options) Check() error {
	if err := known("scenario", o.Scenarios, Scenarios()); err != nil {
		return err
	}
	if err := known("backend", o.Subjects, Subjects()); err != nil {
		return err
	}
	switch {
	case len(o.URLs) > 0 && len(o.Subjects) > 0:
		return fmt.Errorf("with --url the backends are those of the URLs: leave out --backend")
	case !o.has("hazards") && !o.has("costs"):
		return fmt.Errorf("hazards are shown on servers of our own only, since they do harm: leave out --url")
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

// has says whether anything of a part is to be run.
func (o *Options) has(part string) bool {
	if part == "hazards" && len(o.URLs) > 0 {
		return false
	}
	return len(o.Scenarios) == 0 || slices.ContainsFunc(o.Scenarios, func(name string) bool { return partOf(name) == part })
}

// partOf is the part to which a scenario belongs, or which it is.
func partOf(name string) string {
	if name == "costs" || slices.ContainsFunc(scenarios, func(s scenario) bool { return s.name == name }) {
		return "costs"
	}
	return "hazards"
}

// match says whether a scenario is to be run on a subject.
func (o *Options) match(name, subject string) bool {
	return (len(o.Scenarios) == 0 || slices.Contains(o.Scenarios, name) || slices.Contains(o.Scenarios, partOf(name))) &&
		(len(o.Subjects) == 0 || slices.Contains(o.Subjects, subject))
}

func (o *Options) tell(part string, done, total int, what string) {
	if o.Progress != nil {
		o.Progress(part, done, total, what)
	}
}
