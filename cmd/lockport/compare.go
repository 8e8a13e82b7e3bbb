package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/lockport/lockport/compare"
	"github.com/lockport/lockport/internal/lab/report"
)

func compareVerb(ctx context.Context, c *console, args []string) (err error) {
	var o compare.Options
	out := "lockport-report"
	options := newOptions("compare")
	server := options.server()
	options.StringSliceVar(&o.Scenarios, "scenario", nil, "")
	options.StringSliceVar(&o.Subjects, "backend", nil, "")
	options.StringVar(&out, "out", out, "")
	if err := options.parseAlone(args); err != nil {
		return err
	}
	if o.URLs, err = server.urls(); err != nil {
		return err
	}
	if err := o.Check(); err != nil {
		return usagef("%v", err)
	}
	if out == "" {
		return usagef("--out needs the name of a folder")
	}
	if err := os.MkdirAll(out, 0o755); err != nil { // before the comparison spends minutes
		return failf(exitFailed, "the report cannot be written: %v", err)
	}
	ctx, stop := interruptible(ctx)
	defer stop(nil)
	// SIGPIPE must not end this process at once: it would leave the servers' folders.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	began := time.Now()
	show := func(line string) { // replaces the one line of progress
		if c.interactive {
			_, _ = io.WriteString(c.err, "\r\x1b[K"+line)
		}
	}
	o.Progress = func(part string, done, total int, what string) {
		show(short(fmt.Sprintf("%3.0f s  %s %d/%d  %s", time.Since(began).Seconds(), part, done, total, what), 100))
	}
	stopMessage := context.AfterFunc(ctx, func() { show(""); c.say("cleaning up; interrupt again to stop at once") })
	r, err := compare.Run(ctx, o)
	stopMessage()
	show("")
	switch {
	case interruption(ctx) != nil:
		return interruption(ctx)
	case err != nil && len(o.URLs) > 0: // with the same exit code as other verbs
		return libraryError(err)
	case err != nil:
		return failf(exitFailed, "%v", err)
	}
	if err := compare.Write(out, r); err != nil {
		return failf(exitFailed, "the report cannot be written: %v", err)
	}
	return conclude(c, r, out)
}

// conclude writes the summary, what is missing, and where the report is.
func conclude(c *console, r *report.Report, dir string) error {
	if _, err := io.WriteString(c.out, r.Summary()); err != nil {
		return err
	}
	for _, m := range r.Missing {
		c.say("not installed: %s, for %s; to install it: %s", m.Program, m.Subject, m.Install)
	}
	html, _ := filepath.Abs(filepath.Join(dir, compare.HTMLFile)) // no error: the report was just written there
	_, err := fmt.Fprintf(c.out, "\nThe report: %s\n", html)
	return err
}
