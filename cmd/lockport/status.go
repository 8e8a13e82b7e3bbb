package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/lockport/lockport"
)

func statusVerb(ctx context.Context, c *console, args []string) error {
	options := newOptions("status")
	server := options.server()
	prefix := options.String("prefix", "", "")
	asJSON := options.Bool("json", false, "")
	err := options.parse(args)
	switch {
	case err != nil:
		return err
	case options.NArg() > 1:
		return usagef("status takes one lock name or none, not %d", options.NArg())
	case options.NArg() == 1 && options.Changed("prefix"):
		return usagef("a lock's name and --prefix exclude each other")
	}
	url, err := server.url()
	if err != nil {
		return err
	}
	client, err := openInspector("status", url)
	if err != nil {
		return err
	}
	defer client.Close()
	var all []lockport.Status
	if options.NArg() == 1 {
		all = make([]lockport.Status, 1)
		if all[0], err = inspect(ctx, client, options.Arg(0)); err != nil {
			return err
		}
		if !all[0].Held {
			err = exitWith(exitFailed)
		}
	} else if all, err = list(ctx, client, *prefix); len(all) == 0 && err != nil {
		return err
	}
	var written error
	switch {
	case *asJSON:
		written = writeLocks(c.out, client, all)
	case len(all) > 0:
		written = writeTable(c.out, all...)
	case *prefix != "":
		c.say("no held lock has a name that starts with %q", *prefix)
	default:
		c.say("no lock is held (%s)", client.Capabilities().Backend)
	}
	if written != nil { // the exit codes below tell a script about the lock
		return failf(exitUnavailable, "the answer cannot be written: %v", written)
	}
	return err
}

// list returns the locks whose names start with prefix, sorted. With an error, some may be missing.
func list(ctx context.Context, client *lockport.Client, prefix string) ([]lockport.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	all, err := client.List(ctx, prefix)
	slices.SortFunc(all, func(a, b lockport.Status) int { return cmp.Compare(a.Name, b.Name) })
	if errors.Is(err, errors.ErrUnsupported) {
		return nil, usagef("%v; name the lock: lockport status NAME", err)
	}
	return all, inspectError(err)
}

// lockJSON is a lock in the output of --json, an interface for programs.
type lockJSON struct {
	Name    string     `json:"name"`
	Held    bool       `json:"held"`
	Foreign bool       `json:"foreign"`
	Owner   string     `json:"owner,omitempty"`
	Host    string     `json:"host,omitempty"`
	PID     int        `json:"pid,omitempty"`
	Label   string     `json:"label,omitempty"`
	Token   uint64     `json:"token,omitempty,string"` // a string: a JSON reader may lose digits of a large number
	Since   time.Time  `json:"since,omitzero"`
	Expires time.Time  `json:"expires,omitzero"`
	Waiters *int       `json:"waiters,omitempty"`
	Shared  bool       `json:"shared,omitempty"`
	Permits int        `json:"permits,omitempty"`
	Others  []lockJSON `json:"others,omitempty"`
}

func newLockJSON(st lockport.Status) lockJSON {
	at := func(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }
	j := lockJSON{
		Name: st.Name, Held: st.Held, Foreign: st.Foreign, Owner: st.Owner, Host: st.Host, PID: st.PID, Label: st.Label, Token: uint64(st.Token),
		Since: at(st.Since), Expires: at(st.Expires), Shared: st.Shared, Permits: st.Permits,
	}
	if st.Waiters >= 0 {
		j.Waiters = &st.Waiters
	}
	for _, other := range st.Others {
		o := newLockJSON(other)
		o.Waiters = nil
		j.Others = append(j.Others, o)
	}
	return j
}

func writeLocks(w io.Writer, client *lockport.Client, all []lockport.Status) error {
	report := struct {
		Backend string     `json:"backend"`
		Locks   []lockJSON `json:"locks"`
	}{client.Capabilities().Backend, make([]lockJSON, 0, len(all))}
	for _, st := range all {
		report.Locks = append(report.Locks, newLockJSON(st))
	}
	return encode(w, report)
}

// nameWidth is how many characters of a name the table shows at most: a long name would push the other columns off the screen.
const nameWidth = 60

// writeTable writes a table of locks, with a row for each holder.
func writeTable(w io.Writer, all ...lockport.Status) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NAME\tHOLDER\tSINCE\tHELD\tEXPIRES IN\tTOKEN\tWAITING")
	for _, st := range all {
		for _, h := range append([]lockport.Status{st}, st.Others...) {
			h.Others = nil
			row := []string{short(plain(h.Name), nameWidth), who(h) + mode(h), "", "", "", "", ""} // empty: unknown
			if !h.Since.IsZero() {
				row[2], row[3] = h.Since.Local().Format(time.DateTime), age(time.Since(h.Since))
			}
			if !h.Expires.IsZero() {
				row[4] = age(time.Until(h.Expires))
			}
			if h.Token > 0 { // that of the grant's first hold, as in Lock.Token and LOCKPORT_TOKEN
				row[5] = fmt.Sprint(h.Token)
			}
			if st.Waiters >= 0 {
				row[6] = fmt.Sprint(st.Waiters)
			}
			for i := range row {
				row[i] = cmp.Or(row[i], "-")
			}
			fmt.Fprintln(t, strings.Join(row, "\t"))
		}
	}
	return t.Flush()
}

// mode says what a holder has, unless it is the whole lock.
func mode(st lockport.Status) string {
	switch {
	case st.Shared:
		return " (reader)"
	case st.Permits > 0:
		return fmt.Sprintf(" (1 of %d permits)", st.Permits)
	case st.Permits < 0:
		return " (1 permit)"
	}
	return ""
}

// age is a duration for people. It may be negative because clocks of two machines differ; then it is shown as 0.
func age(d time.Duration) string {
	grain := time.Second
	if d < 10*time.Second {
		grain = 100 * time.Millisecond
	}
	return max(d, 0).Round(grain).String()
}
