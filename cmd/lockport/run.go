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

// runner runs a command under a lock.
type runner struct {
	c       *console
	o       runOptions
	path    string         // of the command
	signals chan os.Signal // sent to lockport
	client  *lockport.Client
	began   time.Time // when the command was about to begin, under a lock just acquired
	silent  bool      // the command was ended because the server did not answer in time
	key     bool      // the command died of Ctrl-C, which its terminal sent to the command's group alone
}

func runVerb(ctx context.Context, c *console, args []string) error {
	o, err := parseRun(args)
	if err != nil {
		return err
	}
	path, err := findCommand(o.command[0])
	if err != nil {
		return err
	}
	ttyFd() // for ends: it cannot be opened after a hangup
	// From here on a write to a terminal or a broken pipe must neither stop nor end this process: it renews a lock and watches a command. SIGPIPE
	// is caught, because the command would inherit an ignored one.
	signal.Ignore(syscall.SIGTTOU)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	r := &runner{c: c, o: o, path: path, signals: make(chan os.Signal, 64)}
	// supervise adds SIGTSTP: before that, SIGTSTP stops lockport like any program.
	notify(r.signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
		syscall.SIGALRM, syscall.SIGWINCH, syscall.SIGCONT)
	work := r.once
	if o.keep {
		work = r.keep
	}
	err = work(ctx)
	r.close()
	if exit, ok := errors.AsType[*exitError](err); ok && exit.code == signalCode(syscall.SIGINT) && inForeground() && os.Getpid() != 1 {
		r.dieOfInterrupt()
	}
	return err
}

func (r *runner) once(ctx context.Context) error {
	started := time.Now()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	stopListening := r.onSignal(end)
	first := ctx // of the opening and the first attempt
	if r.o.wait >= 0 {
		var cancel context.CancelFunc
		first, cancel = context.WithDeadline(ctx, started.Add(max(r.o.wait, shortestWait)))
		defer cancel()
	}
	err := r.open(first)
	var lock *lockport.Set
	if err == nil {
		lock, err = r.acquire(ctx, first, started)
	}
	stopListening()
	if interrupted := interruption(ctx); interrupted != nil {
		if err == nil { // granted at the same moment
			_ = lock.Release(context.WithoutCancel(ctx))
		}
		err = interrupted
	}
	if err != nil {
		return err
	}
	code, _, err := r.supervise(lock, lock.Locks())
	if err != nil {
		r.afterRelease(lock.Release(context.Background()), exitOK, true)
		return err
	}
	kept, _ := r.keepMinHold(lock)
	if !r.silent { // otherwise close releases it, if the server answers again
		code = r.afterRelease(lock.Release(context.Background()), code, !kept)
	}
	return exitWith(code)
}

// onSignal calls cancel when a signal ends lockport while no command runs, until stop is called.
func (r *runner) onSignal(cancel context.CancelCauseFunc) (stop func()) {
	done := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		if s := r.untilEnded(done); s != 0 {
			cancel(exitWith(signalCode(s)))
		}
	})
	return func() { close(done); watching.Wait() }
}

// untilEnded waits for done, or for a signal that ends lockport while no command runs, and returns that signal.
func (r *runner) untilEnded(done <-chan struct{}) (end syscall.Signal) {
	handle := func(s syscall.Signal) {
		if r.ends(s) {
			end = s
		}
	}
	for end == 0 {
		select {
		case <-done:
			return 0
		case s := <-r.signals:
			if handle(s.(syscall.Signal)); s == syscall.SIGTSTP { // caught since the first command
				r.stopJob(handle)
			}
		}
	}
	return end
}

// ends reports whether s ends lockport while no command runs. With --keep, signals that ask services to reload are for the command alone. SIGHUP is
// one where no terminal can hang up.
func (r *runner) ends(s syscall.Signal) bool {
	switch s {
	case syscall.SIGWINCH, syscall.SIGCONT, syscall.SIGTSTP:
		return false
	case syscall.SIGUSR1, syscall.SIGUSR2:
		return !r.o.keep
	case syscall.SIGHUP:
		return !r.o.keep || ttyFd() >= 0
	}
	return true
}

// keepMinHold keeps lock after the command until the end of --min-hold. It returns sooner if the lock is lost, or a signal ends lockport: then it
// returns the signal. kept: the lock was held, and it was time to keep it.
func (r *runner) keepMinHold(lock hold) (kept bool, end syscall.Signal) {
	if lock.Err() != nil || time.Since(r.began) >= r.o.minHold {
		return false, 0
	}
	held, cancel := lock.Context(context.Background())
	defer cancel()
	over, stop := context.WithDeadline(held, r.began.Add(r.o.minHold))
	defer stop()
	return true, r.untilEnded(over.Done())
}

// close closes the client, which undoes claims of unknown outcome, and releases a lock that the supervisor gave up. A silent server gets a second,
// and a signal ends the wait: the rest then ends with this process or with the TTL.
func (r *runner) close() {
	if r.client == nil {
		return
	}
	closed := make(chan struct{})
	go func() { within(time.Second, func() { _ = r.client.Close() }); close(closed) }()
	r.untilEnded(closed)
}

func (r *runner) open(ctx context.Context) (err error) {
	if r.client, err = openServer(ctx, r.o.url, lockport.TTL(r.o.ttl)); err == nil {
		err = refuseMemory("run", r.client.Backend())
	}
	if err == nil && r.c.interactive {
		for _, n := range r.client.Notices() {
			if !n.Unknown {
				r.c.say("warning: %s %s", n.Text, n.Remedy)
			}
		}
	}
	return err
}

// acquire acquires the lock. first bounds the first attempt of -n and -w. -w counts from started.
func (r *runner) acquire(ctx, first context.Context, started time.Time) (lock *lockport.Set, err error) {
	waited := ""
	if r.o.wait > 0 {
		waited = fmt.Sprintf("waited %v: ", r.o.wait)
	}
	if r.o.wait < 0 {
		lock, err = r.wait(ctx)
	} else {
		lock, err = r.waitUntil(ctx, first, started.Add(r.o.wait))
	}
	if failed, ok := errors.AsType[*lockport.Error](err); ok && errors.Is(err, lockport.ErrHeld) {
		return nil, failf(exitHeld, "%s%q is held by %s", waited, failed.Name, holder(ctx, r.client, failed.Name))
	}
	return lock, libraryError(err)
}

// waitUntil waits until deadline. A first attempt may take until first ends: a free lock is taken even if opening the server has taken the time, and
// with -n. If its answer "held" is less than a second old when the time is over, it stands: later requests may have had no time for theirs.
func (r *runner) waitUntil(ctx, first context.Context, deadline time.Time) (*lockport.Set, error) {
	lock, held := lockport.TryAcquireAll(first, r.client, r.o.names, r.o.mode...)
	if !errors.Is(held, lockport.ErrHeld) {
		return lock, held
	}
	answered := time.Now()
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	lock, err := r.wait(ctx)
	if errors.Is(err, context.DeadlineExceeded) && time.Since(answered) < time.Second {
		err = held
	}
	return lock, err
}

func (r *runner) wait(ctx context.Context) (*lockport.Set, error) {
	return lockport.AcquireAll(ctx, explainer{r.client, r.c}, r.o.names, r.o.mode...)
}

// explainer is a client that names a lock's holder on a terminal if Acquire takes long.
type explainer struct {
	*lockport.Client
	c *console
}

func (e explainer) Acquire(ctx context.Context, name string, opts ...lockport.AcquireOption) (*lockport.Lock, error) {
	if !e.c.interactive {
		return e.Client.Acquire(ctx, name, opts...)
	}
	waiting, acquired := context.WithCancel(ctx)
	var explaining sync.WaitGroup
	defer func() { acquired(); explaining.Wait() }() // then nothing more will be written
	explaining.Go(func() {
		select {
		case <-waiting.Done():
			return
		case <-time.After(time.Second): // for most locks a person waits less
		}
		if by := holder(waiting, e.Client, name); waiting.Err() == nil {
			e.c.say("waiting for %q, held by %s", name, by)
		}
	})
	return e.Client.Acquire(ctx, name, opts...)
}

// holder names the holder of a lock, and since when, as far as known.
func holder(ctx context.Context, client *lockport.Client, name string) string {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	st, err := client.Inspect(ctx, name)
	switch {
	case err != nil || !st.Held || st.Owner == "":
		return "another client"
	case st.Since.IsZero() || len(st.Others) > 0:
		return who(st)
	}
	return who(st) + " since " + st.Since.Local().Format(time.DateTime)
}

// afterRelease decides the exit code when the release has returned err: a lock lost while the command ran overrides the command's code.
// exposed: the command ran until the release, so a loss that the release finds counts. Otherwise --min-hold kept the lock, and only a message tells.
func (r *runner) afterRelease(err error, code int, exposed bool) int {
	lost := errors.Is(err, lockport.ErrLost)
	switch {
	case err == nil:
	case !lost:
		r.c.say("%v; the lock expires within %v", err, r.o.ttl)
	case code != exitLost: // otherwise the loss was said
		r.c.say("%v", err)
	}
	if lost && exposed {
		return exitLost
	}
	return code
}
