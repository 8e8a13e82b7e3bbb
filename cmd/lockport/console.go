package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// console is what a verb writes to and reads from: data goes to out, messages for people go to err, and answers come from in.
type console struct {
	in          *bufio.Reader
	out, err    io.Writer
	interactive bool // err is a terminal
	answers     bool // in is a terminal
}

func newConsole() *console {
	return &console{in: bufio.NewReader(os.Stdin), out: os.Stdout, err: os.Stderr, interactive: isTerminal(os.Stderr), answers: isTerminal(os.Stdin)}
}

// sayLimit bounds the writing of a message. Ctrl-S stops a terminal, and a pipe can be full: neither must keep lockport from ending a command.
const sayLimit = time.Second

// say writes one line for people. It ignores write errors. After sayLimit it leaves the write behind.
func (c *console) say(format string, args ...any) {
	line := "lockport: " + oneLine(fmt.Sprintf(format, args...)) + "\n"
	within(sayLimit, func() { _, _ = io.WriteString(c.err, line) })
}

// within calls f, and leaves it behind after limit.
func within(limit time.Duration, f func()) {
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(limit):
	}
}

// encode writes JSON for programs and for people.
func encode(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// notify delivers signals to c, except those ignored since the start, as by nohup(1): they stay ignored. Go knows this of SIGHUP and SIGINT only.
func notify(c chan<- os.Signal, signals ...os.Signal) {
	for _, s := range signals {
		if !signal.Ignored(s) {
			signal.Notify(c, s)
		}
	}
}

// interruptible returns a context that ends with the first signal to end; see interruption. A second signal ends this process.
func interruptible(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 1)
	notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		select {
		case s := <-signals:
			cancel(exitWith(signalCode(s.(syscall.Signal))))
		case <-ctx.Done():
		}
		signal.Stop(signals)
	}()
	return ctx, cancel
}

// interruption is the exit error if a signal has ended ctx, else nil.
func interruption(ctx context.Context) error {
	if exit, ok := errors.AsType[*exitError](context.Cause(ctx)); ok {
		return exit
	}
	return nil
}
