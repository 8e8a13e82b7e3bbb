package main

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/lockport/lockport/driver"
)

const statusHelp = `Usage: lockport status [OPTION…] [NAME | --prefix PREFIX]

Shows who holds the lock NAME, since when, until when, with what fencing token, and how many wait for it. Without NAME: all
locks that are held or waited for, as far as the server knows their names. Looking changes nothing at a lock.

  --url URL        the lock server; default: $LOCKPORT_URL, else files of this machine.
                   Other users of this machine see it: put a URL with a password into a file
  --url-file FILE  a file that holds the URL in one line; default: $LOCKPORT_URL_FILE
  --prefix PREFIX  only the locks whose names start with PREFIX
  --json           for programs: see below

The holder is shown as host, process and label (the program's name, unless it chose another), or as "foreign" with what it
wrote, if it is no client of lockport. The token is that of the first hold of the server's grant, as LOCKPORT_TOKEN has it:
further holds that the same process hands on to itself count up from there. A name in quotes is written as in Go; in the
table a long one is cut. What a server cannot know is "not known", "-" in the table. MySQL knows the names of lockport's own
locks alone: a foreign client's is shown when it is asked for by NAME. Postgres knows no names and no tokens: NAME is needed
there (save with exact keys), and its holder is the client whose session has it.

--json writes one object: "backend", and "locks", an array, by name, with one element if NAME is given. Of each lock: "name",
"held", "foreign" (the holder is no client of lockport), "owner" (its id, or what a foreign one wrote), "host", "pid", "label",
"token" (digits, in a string), "since" and "expires" (RFC 3339), "waiters". What is not known, or does not apply, is absent.
Fields may be added; those that are there stay as they are.

Exit status: 0 NAME is held, or, without NAME, the locks were listed; 1 nobody holds NAME; 69 the lock server cannot be
reached, or refuses, or the list is not complete; 64 wrong usage.

Example:
  lockport status --url redis://localhost:6379 nightly-report
  lockport status --json | jq -r '.locks[] | select(.host == "web1") | .name'
`

// statusOptions is the command line of status.
type statusOptions struct {
	url    string
	name   string // empty: all
	prefix string
	json   bool
}

func parseStatus(args []string) (statusOptions, error) {
	var o statusOptions
	options := newOptions("status")
	server := options.server()
	options.text(&o.prefix, "prefix")
	options.flag(&o.json, "json", "")
	a, err := options.parse(args)
	names := append(a.before, a.after...)
	switch {
	case err != nil:
		return o, err
	case len(names) > 1:
		return o, usagef("status takes one lock name, or none: %q", names)
	case len(names) == 1 && options.Changed("prefix"):
		return o, usagef("a lock's name and --prefix exclude each other")
	case len(names) == 1:
		o.name, err = names[0], checkLockName(names[0])
	}
	if err == nil {
		o.url, err = server.url()
	}
	return o, err
}

// statusVerb is "lockport status".
func statusVerb(ctx context.Context, c *console, args []string) error {
	o, err := parseStatus(args)
	if err != nil {
		return err
	}
	v, err := openView("status", o.url)
	if err != nil {
		return err
	}
	defer v.close()
	if o.name != "" {
		return v.showOne(ctx, c, o)
	}
	return v.showAll(ctx, c, o)
}

func (v *view) showOne(ctx context.Context, c *console, o statusOptions) error {
	st, err := v.inspect(ctx, o.name)
	if err != nil {
		return err
	}
	if o.json {
		err = writeLocks(c.out, v.caps.Backend, []driver.Status{st})
	} else {
		err = writeDetails(c.out, v.caps, st)
	}
	if err == nil && !st.Held {
		err = exitWith(exitFailed)
	}
	return err
}

func (v *view) showAll(ctx context.Context, c *console, o statusOptions) error {
	all, incomplete := v.list(ctx, o.prefix)
	if len(all) == 0 && incomplete != nil {
		return incomplete
	}
	slices.SortFunc(all, func(a, b driver.Status) int { return cmp.Compare(a.Name, b.Name) })
	var err error
	switch {
	case o.json:
		err = writeLocks(c.out, v.caps.Backend, all)
	case len(all) > 0:
		err = writeTable(c.out, all)
	case o.prefix != "":
		c.say("no lock is held whose name starts with %s", strconv.Quote(o.prefix))
	default:
		c.say("no lock is held (%s)", v.caps.Backend)
	}
	return cmp.Or(err, incomplete)
}

// lockJSON is a lock in the output of --json, which programs depend on.
type lockJSON struct {
	Name    string     `json:"name"`
	Held    bool       `json:"held"`
	Foreign bool       `json:"foreign"`
	Owner   string     `json:"owner,omitempty"`
	Host    string     `json:"host,omitempty"`
	PID     int        `json:"pid,omitempty"`
	Label   string     `json:"label,omitempty"`
	Token   string     `json:"token,omitempty"` // a number may have more digits than what reads it can hold
	Since   *time.Time `json:"since,omitempty"`
	Expires *time.Time `json:"expires,omitempty"`
	Waiters *int       `json:"waiters,omitempty"`
}

// writeLocks writes the output of --json.
func writeLocks(w io.Writer, backend string, all []driver.Status) error {
	report := struct {
		Backend string     `json:"backend"`
		Locks   []lockJSON `json:"locks"`
	}{backend, make([]lockJSON, 0, len(all))}
	at := func(t time.Time) *time.Time {
		if t = t.UTC().Truncate(time.Millisecond); t.IsZero() {
			return nil
		}
		return &t
	}
	for _, st := range all {
		j := lockJSON{Name: st.Name, Held: st.Held}
		if st.Waiters >= 0 {
			j.Waiters = &st.Waiters
		}
		if st.Held {
			j.Foreign, j.Owner, j.Token, j.Since, j.Expires = st.Foreign, st.Owner, tokenOf(st), at(st.Since), at(st.Expires)
			if c, ok := claimantOf(st); ok {
				j.Host, j.PID, j.Label = c.Host, c.PID, c.Label
			}
		}
		report.Locks = append(report.Locks, j)
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(report)
}

// tokenOf is the token of the first hold of the grant, as Lock.Token and LOCKPORT_TOKEN have it; empty if it is not known, or if its holder has another.
func tokenOf(st driver.Status) string {
	if st.Token == 0 || st.Foreign {
		return ""
	}
	return strconv.FormatUint(st.Token*driver.TokensPerGrant, 10)
}
