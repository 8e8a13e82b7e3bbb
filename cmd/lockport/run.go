//go:build linux || darwin

package main

import (
	"context"
	"errors"
	"fmt"
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
	started := time.Now()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	unlisten := onSignal(signals, end)
	client, err := open(ctx, c, o)
	var lock *lockport.Set
	if err == nil {
		lock, err = acquire(ctx, c, o, client, started)
	}
	unlisten()
	if interrupted := interruption(ctx); interrupted != nil {
		if err == nil { // granted in the same moment
			_ = lock.Release(context.WithoutCancel(ctx))
		}
		err = interrupted
	}
	if err != nil {
		closeClient(client, signals)
		return err
	}
	code, _, err := supervise(c, o, path, client.Capabilities().Backend, lock, lock.Locks(), signals)
	return finish(c, o, client, lock, code, err, signals)
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
	options := []lockport.Option{lockport.MinHold(o.minHold)}
	if o.ttlGiven {
		options = append(options, lockport.TTL(o.ttl))
	}
	client, err := openServer(ctx, o.url, options...)
	if err == nil && c.interactive {
		for _, n := range client.Notices() {
			if !n.Unknown {
				c.say("warning: %s %s", n.Text, n.Remedy)
			}
		}
	}
	return client, err
}

// acquire acquires the lock. -w counts from started.
func acquire(ctx context.Context, c *console, o runOptions, client *lockport.Client, started time.Time) (lock *lockport.Set, err error) {
	limited, cancel, waited := ctx, context.CancelFunc(func() {}), ""
	if o.once {
		limited, cancel = context.WithTimeout(ctx, openLimit)
		lock, err = lockport.TryAcquireAll(limited, client, o.names, o.mode()...)
	} else {
		if o.wait >= 0 {
			limited, cancel = context.WithDeadline(ctx, started.Add(o.wait))
			waited = fmt.Sprintf("waited %v: ", o.wait)
		}
		stop := explainWaiting(ctx, c, client, o.names)
		lock, err = lockport.AcquireAll(limited, client, o.names, o.mode()...)
		stop()
	}
	cancel()
	if err == nil {
		return lock, nil
	} else if !errors.Is(err, lockport.ErrHeld) || ctx.Err() != nil {
		return nil, libraryError(err)
	}
	name, by := holder(ctx, client, o.names)
	return nil, failf(exitHeld, "%s%q is held by %s", waited, name, by)
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

// passedOn are the signals that lockport passes on to the command. SIGTSTP comes later, in supervise: until there is
// a command it stops lockport as it stops any program.
var passedOn = []os.Signal{
	syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
	syscall.SIGWINCH, syscall.SIGCONT,
}

// catchSignals delivers the signals that are to be passed on.
func catchSignals() chan os.Signal {
	signals := make(chan os.Signal, 64)
	notify(signals, passedOn...)
	return signals
}
