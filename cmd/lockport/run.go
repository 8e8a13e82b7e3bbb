//go:build linux || darwin

package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/lockport/lockport"
)

// runVerb is "lockport run".
func runVerb(ctx context.Context, c *console, args []string) error {
	o, err := parseRun(args)
	if err != nil {
		return err
	}
	path, err := findCommand(o.command[0])
	if err != nil {
		return err
	}
	// From here on a write to a terminal or to a pipe without a reader must neither stop nor end this process, which
	// has a lock to renew and a command to watch. SIGPIPE is caught rather than ignored: the command would inherit that.
	signal.Ignore(syscall.SIGTTOU)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	signals := catchSignals()

	if o.keep {
		return keep(ctx, c, o, path, signals)
	}
	client, lock, err := acquire(ctx, c, o, signals)
	if err != nil {
		closeClient(client, signals)
		return err
	}
	code, _, err := supervise(c, o, path, client.Capabilities().Backend, lock, lock.Locks(), signals)
	return finish(c, o, client, lock, code, err, signals)
}

// acquire opens the server and waits for the lock, until a signal ends that. With an error a client may be left to close.
func acquire(ctx context.Context, c *console, o runOptions, signals <-chan os.Signal) (*lockport.Client, *lockport.Set, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := onSignal(signals, cancel)
	client, lock, err := openAndAcquire(ctx, c, o)
	stop()
	var interrupted *exitError
	if !errors.As(context.Cause(ctx), &interrupted) {
		return client, lock, err
	}
	if lock != nil { // granted in the same moment
		_ = lock.Release(context.WithoutCancel(ctx))
	}
	return client, nil, interrupted
}

// onSignal cancels when a signal ends lockport where no command runs, until stop is called.
func onSignal(signals <-chan os.Signal, cancel context.CancelCauseFunc) (stop func()) {
	done := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		if s := untilEnded(done, signals); s != 0 {
			cancel(&exitError{code: signalCode(s)})
		}
	})
	return func() { close(done); watching.Wait() }
}

// untilEnded waits for done, or for a signal that ends lockport where no command runs, which it returns.
func untilEnded(done <-chan struct{}, signals <-chan os.Signal) syscall.Signal {
	for {
		select {
		case <-done:
			return 0
		case s := <-signals:
			if s != syscall.SIGWINCH && s != syscall.SIGCONT && s != syscall.SIGTSTP {
				return s.(syscall.Signal)
			}
		}
	}
}

// closeClient closes the client, which keeps the lock for as long as --min-hold wants, and undoes what is uncertain. A signal
// ends that: what is left then ends with this process or with the TTL.
func closeClient(client *lockport.Client, signals <-chan os.Signal) {
	if client == nil {
		return
	}
	closed := make(chan struct{})
	go func() { _ = client.Close(); close(closed) }()
	untilEnded(closed, signals)
}

// open opens the server.
func open(ctx context.Context, c *console, o runOptions) (*lockport.Client, error) {
	options := []lockport.Option{lockport.Logger(nil), lockport.MinHold(o.minHold)}
	if o.ttlGiven {
		options = append(options, lockport.TTL(o.ttl))
	}
	limited, cancel := context.WithTimeout(ctx, openLimit)
	defer cancel()
	client, err := lockport.Open(limited, o.url, options...)
	if err != nil {
		return nil, libraryError(err)
	}
	if c.interactive {
		for _, n := range client.Notices() {
			if !n.Unknown {
				c.say("warning: %s %s", n.Text, n.Remedy)
			}
		}
	}
	return client, nil
}

func openAndAcquire(ctx context.Context, c *console, o runOptions) (client *lockport.Client, lock *lockport.Set, err error) {
	started := time.Now()
	if client, err = open(ctx, c, o); err != nil {
		return nil, nil, err
	}
	if o.once {
		limited, cancel := context.WithTimeout(ctx, openLimit)
		defer cancel()
		lock, err = lockport.TryAcquireAll(limited, client, o.names, o.mode()...)
	} else {
		bounded, cancel := ctx, context.CancelFunc(func() {})
		if o.wait >= 0 {
			bounded, cancel = context.WithDeadline(ctx, started.Add(o.wait))
		}
		defer cancel()
		stop := explainWaiting(ctx, c, client, o.names)
		lock, err = lockport.AcquireAll(bounded, client, o.names, o.mode()...)
		stop()
	}
	switch {
	case err == nil:
		return client, lock, nil
	case !errors.Is(err, lockport.ErrHeld) || ctx.Err() != nil:
		return client, nil, libraryError(err)
	case o.wait > 0:
		name, by := holder(ctx, client, o.names)
		return client, nil, failf(exitHeld, "waited %v for %q, held by %s", o.wait, name, by)
	}
	name, by := holder(ctx, client, o.names)
	return client, nil, failf(exitHeld, "%q is held by %s", name, by)
}

// explainAfter is how long a person waits for a lock before being told who has it.
const explainAfter = time.Second

// explainWaiting tells a person at a terminal who has the lock, if Acquire takes long. stop ends that, and returns when
// nothing more will be written.
func explainWaiting(ctx context.Context, c *console, client *lockport.Client, names []string) (stop func()) {
	if !c.interactive {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var explaining sync.WaitGroup
	explaining.Go(func() {
		select {
		case <-ctx.Done():
			return
		case <-time.After(explainAfter):
		}
		name, by := holder(ctx, client, names)
		if ctx.Err() == nil {
			c.say("waiting for %q, held by %s", name, by)
		}
	})
	return func() { cancel(); explaining.Wait() }
}

// finish releases the lock and settles the exit code: a lock
// that turns out to be lost counts more than what the command returned.
func finish(c *console, o runOptions, client *lockport.Client, lock *lockport.Set, code int, failed error, signals <-chan os.Signal) error {
	err := lock.Release(context.Background())
	switch {
	case errors.Is(err, lockport.ErrLost):
		if code != exitLost {
			c.say("%v", err)
		}
		if failed == nil {
			code = exitLost
		}
	case err != nil:
		c.say("%v; the lock expires within %v", err, o.ttl)
	}
	closeClient(client, signals)
	if failed != nil {
		return failed
	}
	return exitWith(code)
}

// passedOn are the signals that lockport passes on to the command. SIGTSTP comes later, see catchStop: until there is a
// command it stops lockport as it stops any program.
var passedOn = []os.Signal{
	syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
	syscall.SIGWINCH, syscall.SIGCONT,
}

// catchSignals delivers the signals that are to be passed on. Those that were ignored when lockport was started, as nohup(1)
// does, stay ignored, here and in the command.
func catchSignals() chan os.Signal {
	signals := make(chan os.Signal, 64)
	for _, s := range passedOn {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	return signals
}

// catchStop delivers SIGTSTP too, so that the command stops first, or not at all.
func catchStop(signals chan<- os.Signal) {
	if !signal.Ignored(syscall.SIGTSTP) {
		signal.Notify(signals, syscall.SIGTSTP)
	}
}
