package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

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
	options.flag(&o.Full, "full", "")
	options.list(&o.Scenarios, "scenario")
	options.list(&o.Subjects, "backend")
	options.text(&o.out, "out")
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
	unused, err := reportFolder(o.out)
	if err != nil {
		return failf(exitFailed, "%v", err)
	}
	defer unused()
	folder, err := temporaryFolder()
	if err != nil {
		return failf(exitFailed, "a folder for temporary files cannot be made: %v (TMPDIR names the place)", err)
	}
	defer os.RemoveAll(folder)
	ctx, stop := untilInterrupted(ctx, c, folder)
	defer stop(nil)
	p := newProgress(c)
	o.Progress = p.show
	r, err := compare.Run(ctx, o.Options)
	p.end()
	var interrupted *exitError
	switch {
	case errors.As(context.Cause(ctx), &interrupted):
		return interrupted
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
		c.say("not installed: %s, for %s; to install it: %s", m.Program, strings.Join(m.Subjects, ", "), m.Install)
	}
	html := filepath.Join(dir, compare.HTMLFile)
	if absolute, err := filepath.Abs(html); err == nil {
		html = absolute
	}
	_, err := fmt.Fprintf(c.out, "\nThe report: %s\n", html)
	return err
}

// reportFolder makes the folder for the report, and looks whether files can be written there, before three minutes have been spent. unused removes a folder that
// it has made if nothing was written.
func reportFolder(dir string) (unused func(), err error) {
	unused = func() {}
	if _, err := os.Stat(dir); os.IsNotExist(err) {
		unused = func() { _ = os.Remove(dir) } // which spares what is not empty
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("the folder for the report cannot be made: %w", err)
	}
	f, err := os.CreateTemp(dir, ".lockport-")
	if err != nil {
		unused()
		return nil, fmt.Errorf("the report could not be written: %w", err)
	}
	return unused, errors.Join(f.Close(), os.Remove(f.Name()))
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

// untilInterrupted is a context that the first signal ends; a second one ends this process, and with it all that it started, whose temporary
// files it removes first. It ends too when nobody reads what is written for people. Its cause is the *exitError to end with.
func untilInterrupted(ctx context.Context, c *console, folder string) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 2)
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	// Without it a line that nobody reads ends this process at once; a connection that is cut makes this signal as well.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	c.err = &reader{c.err, func() { cancel(exitWith(signalCode(syscall.SIGPIPE))) }}
	go func() {
		code := signalCode((<-signals).(syscall.Signal))
		if c.interactive {
			_, _ = fmt.Fprint(c.err, clearLine)
		}
		c.say("stopping the servers; press again to stop at once")
		cancel(exitWith(code))
		code = signalCode((<-signals).(syscall.Signal))
		_ = os.RemoveAll(folder)
		os.Exit(code)
	}()
	return ctx, cancel
}

// reader is the one that reads what is written to a writer. It calls gone when it has gone.
type reader struct {
	io.Writer
	gone func()
}

func (r *reader) Write(p []byte) (int, error) {
	n, err := r.Writer.Write(p)
	if errors.Is(err, syscall.EPIPE) {
		r.gone()
	}
	return n, err
}
