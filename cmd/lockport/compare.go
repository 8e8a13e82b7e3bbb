package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/lockport/lockport/compare"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/report"
)

// compareOptions is the command line of compare.
type compareOptions struct {
	compare.Options
	out string
}

func parseCompare(args []string) (compareOptions, error) {
	o := compareOptions{out: "lockport-report"}
	options := newOptions("compare")
	server := options.server()
	options.BoolVar(&o.Full, "full", false, "")
	options.StringSliceVar(&o.Scenarios, "scenario", nil, "")
	options.StringSliceVar(&o.Subjects, "backend", nil, "")
	options.StringVar(&o.out, "out", o.out, "")
	err := options.parseAlone(args)
	switch {
	case err != nil:
		return o, err
	case o.out == "":
		return o, usagef("--out needs the name of a folder")
	}
	if o.URLs, err = server.named(); err != nil {
		return o, err
	}
	if err := o.Check(); err != nil {
		return o, usagef("%v", err)
	}
	return o, nil
}

// compareVerb is "lockport compare".
func compareVerb(ctx context.Context, c *console, args []string) error {
	o, err := parseCompare(args)
	if err != nil {
		return err
	}
	made, err := reportFolder(o.out)
	if made {
		defer os.Remove(o.out) // which spares what is not empty
	}
	if err != nil {
		return failf(exitFailed, "the report could not be written: %v", err)
	}
	folder, err := temporaryFolder()
	if err != nil {
		return failf(exitFailed, "a folder for temporary files cannot be made: %v (TMPDIR names the place)", err)
	}
	defer os.RemoveAll(folder)
	ctx, stop := interruptible(ctx)
	defer stop(nil)
	// A line that nobody reads must not end this process at once, which leaves temporary files.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	p := &progress{c, time.Now()}
	o.Progress = p.show
	said := context.AfterFunc(ctx, func() { p.end(); c.say("stopping the servers; press again to stop at once") })
	r, err := compare.Run(ctx, o.Options)
	said()
	p.end()
	switch {
	case interruption(ctx) != nil:
		return interruption(ctx)
	case errors.Is(err, driver.ErrUnavailable), errors.Is(err, driver.ErrRefused): // their exit code is that of other verbs
		return libraryError(err)
	case err != nil:
		return failf(exitFailed, "%v", err)
	}
	if err := compare.Write(o.out, r); err != nil {
		return failf(exitFailed, "the report cannot be written: %v", err)
	}
	err = conclude(c, r, o.out)
	if errors.Is(err, syscall.EPIPE) {
		return exitWith(signalCode(syscall.SIGPIPE))
	}
	return err
}

// conclude writes what was seen, what is missing, and where the report is.
func conclude(c *console, r *report.Report, dir string) error {
	if _, err := io.WriteString(c.out, r.Summary()); err != nil {
		return err
	}
	for _, m := range r.Missing {
		c.say("not installed: %s, for %s; to install it: %s", m.Program, m.Subject, m.Install)
	}
	html := filepath.Join(dir, compare.HTMLFile)
	if absolute, err := filepath.Abs(html); err == nil {
		html = absolute
	}
	_, err := fmt.Fprintf(c.out, "\nThe report: %s\n", html)
	return err
}

// reportFolder makes the folder for the report unless it is there, and looks whether files can be written there, before three minutes have been spent. Made says
// that it was not there.
func reportFolder(dir string) (made bool, err error) {
	if err := os.MkdirAll(filepath.Dir(filepath.Clean(dir)), 0o755); err != nil {
		return false, err
	}
	err = os.Mkdir(dir, 0o755)
	made = err == nil
	if err != nil && !errors.Is(err, os.ErrExist) {
		return false, err
	}
	f, err := os.CreateTemp(dir, ".lockport-")
	if err != nil {
		return made, err
	}
	return made, errors.Join(f.Close(), os.Remove(f.Name()))
}

// temporaryFolder makes the folder in which all that this process starts has its temporary files, so that one removal takes all of them.
func temporaryFolder() (string, error) {
	folder, err := os.MkdirTemp("", "lockport-compare-")
	if err != nil {
		return "", err
	}
	// Postgres runs as another user where this is root, and must be able to pass.
	if err := os.Chmod(folder, 0o711); err != nil {
		_ = os.Remove(folder)
		return "", err
	}
	return folder, os.Setenv("TMPDIR", folder)
}
