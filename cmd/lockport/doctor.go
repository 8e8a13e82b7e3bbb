package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
)

const doctorHelp = `Usage: lockport doctor [OPTION…]

Checks a lock server for settings and state that put locks at risk, and says why and what to do. What the server does not
let this user see is listed separately. It changes no lock. Like every client that opens the server, it creates what is missing
there (a folder, a chroot, a database's sequence or table for tokens), and takes a lock of its own for a moment where only that
shows that the user may.

  --url URL        the lock server; default: $LOCKPORT_URL, else files of this machine.
                   Other users of this machine see it: put a URL with a password into a file
  --url-file FILE  a file that holds the URL in one line; default: $LOCKPORT_URL_FILE
  --json           for programs: see below

docs/doctor.md lists every notice.

--json writes one object: "url" (without user, password and parameters), "backend", "round_trip_us" (the shortest of
a few), "ttl_ms" (absent where a lock ends with its process), and two arrays, "endangers" and "unknown", of objects with "id",
"text" and "remedy". Fields and IDs may be added.

Exit status: 0 nothing was found; 1 something endangers locks; 69 the lock server cannot be reached, or refuses; 64 wrong
usage; 130 interrupted.

Example:
  lockport doctor --url redis://localhost:6379
`

// doctorLimit bounds the whole check.
const doctorLimit = 10 * time.Second

// doctorVerb is "lockport doctor".
func doctorVerb(ctx context.Context, c *console, args []string) error {
	var asJSON bool
	options := newOptions("doctor")
	server := options.server()
	options.flag(&asJSON, "json", "")
	a, err := options.parse(args)
	switch {
	case err != nil:
		return err
	case len(a.before) > 0 || a.dashes:
		return usagef("doctor takes options only; the server is named by --url")
	}
	rawURL, err := server.url()
	if err != nil {
		return err
	}
	interrupted, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	context.AfterFunc(interrupted, stop) // a second Ctrl-C ends this process at once
	limited, cancel := context.WithTimeout(interrupted, doctorLimit)
	defer cancel()
	d, err := diagnose(limited, rawURL)
	switch {
	case interrupted.Err() != nil:
		return exitWith(signalCode(syscall.SIGINT))
	case err != nil:
		return libraryError(err)
	}
	if asJSON {
		out := json.NewEncoder(c.out)
		out.SetIndent("", "  ")
		out.SetEscapeHTML(false)
		err = out.Encode(d)
	} else {
		err = writeDiagnosis(c.out, d)
	}
	switch {
	case err != nil:
		return failf(exitFailed, "what was found cannot be written: %v", err)
	case len(d.Endangers) > 0:
		return exitWith(exitFailed)
	}
	return nil
}

// diagnose asks the server of a URL all that doctor tells.
func diagnose(ctx context.Context, rawURL string) (*diagnosis, error) {
	b, ttl, err := lockport.DefaultMux().OpenBackend(rawURL)
	if err != nil {
		return nil, &lockport.Error{Op: "doctor", Err: err}
	}
	caps := b.Capabilities()
	fail := func(err error) (*diagnosis, error) {
		return nil, &lockport.Error{Op: "doctor", Backend: caps.Backend, Err: err}
	}
	opts := []lockport.Option{lockport.Logger(nil)}
	if ttl > 0 {
		opts = append(opts, lockport.TTL(ttl))
	} else if ttl = caps.FixedTTL; ttl == 0 {
		ttl = lockport.DefaultTTL
	}
	client, err := lockport.New(b, opts...)
	if err != nil {
		_ = b.Close()
		return nil, err
	}
	defer func() { _ = client.Close() }()
	if err := client.Check(ctx); err != nil {
		if e := (*lockport.Error)(nil); errors.As(err, &e) {
			err = e.Err
		}
		return fail(err)
	}
	d := newDiagnosis(address(rawURL), caps)
	d.add(client.Notices()...)
	if caps.Ends == driver.EndsProcess {
		ttl = 0
	}
	d.setTTL(ttl)
	if inspector, ok := driver.As[driver.Inspector](b); ok && caps.Ends != driver.EndsProcess {
		took, err := answerTime(ctx, inspector)
		if err != nil {
			return fail(err)
		}
		d.setAnswerTime(took)
	}
	return d, nil
}

// inspections is how often the server is asked about a lock, to see how soon it answers.
const inspections = 5

// answerTime returns the shortest time in which the server answered an inspection. The first one may have to connect.
func answerTime(ctx context.Context, i driver.Inspector) (shortest time.Duration, err error) {
	for n := range inspections + 1 {
		sent := time.Now()
		if _, err := i.Inspect(ctx, "lockport-doctor"); err != nil {
			return 0, err
		}
		if took := time.Since(sent); n == 1 || n > 1 && took < shortest {
			shortest = took
		}
	}
	return shortest, nil
}
