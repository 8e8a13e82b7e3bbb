package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
)

// breakOptions is the command line of break.
type breakOptions struct {
	url   string
	name  string
	yes   bool
	whole bool // --all-of-session
	owner string
}

func parseBreak(args []string) (o breakOptions, err error) {
	options := newOptions("break")
	server := options.server()
	options.flag(&o.yes, "yes", "")
	options.text(&o.owner, "owner")
	options.flag(&o.whole, "all-of-session", "")
	a, err := options.parse(args)
	names := append(a.before, a.after...)
	switch {
	case err != nil:
		return o, err
	case len(names) == 0:
		return o, usagef("the lock's name is missing; try: lockport break --help")
	case len(names) > 1:
		return o, usagef("break takes one lock name: %q", names)
	}
	o.name = names[0]
	o.url, err = server.url()
	return o, err
}

// breakVerb is "lockport break".
func breakVerb(ctx context.Context, c *console, args []string) error {
	o, err := parseBreak(args)
	switch {
	case err != nil:
		return err
	case !o.yes && !(c.interactive && c.answers):
		return usagef("break asks before it ends a hold, and there is no terminal to ask on: give --yes")
	}
	v, err := openView("break", o.url)
	if err != nil {
		return err
	}
	defer v.close()
	st, err := v.inspect(ctx, o.name)
	if err != nil {
		return err
	}
	if !st.Held {
		return failf(exitFailed, "nobody holds %s", plain(o.name))
	}
	if st, err = oneHolder(st, o.owner); err != nil {
		return err
	}
	_ = writeDetails(c.err, v.caps, st)
	if _, ok := driver.As[driver.Breaker](v.Backend()); !ok {
		return failf(exitUnavailable, "the backend %s cannot end a hold by force: %s", v.caps.Backend, instead(st, v.caps))
	}
	if !o.yes && !c.asks("End this hold?") {
		return failf(exitFailed, "nothing was ended")
	}
	limited, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	err = v.Break(limited, o.name, st.Owner)
	var shared *driver.SharedSessionError
	if session, ok := driver.As[driver.SessionBreaker](v.Backend()); ok && errors.As(err, &shared) {
		if !o.whole {
			return failf(exitUnavailable, "nothing was ended: the server can end only the whole session of the holder (%s), and %s; to end it anyway, give --all-of-session",
				shared.Session, losses(shared))
		}
		c.say("with the holder's session (%s) %s", shared.Session, losses(shared))
		if !o.yes && !c.asks("End the session?") {
			return failf(exitFailed, "nothing was ended")
		}
		limited, cancel := context.WithTimeout(ctx, lookLimit)
		defer cancel()
		err = session.BreakSession(limited, o.name, st.Owner)
	}
	switch {
	case err == nil:
		c.say("%s", ended(st, v))
		return nil
	case errors.Is(err, driver.ErrLost):
		return failf(exitFailed, "nothing was ended: %s is no longer held by %s", plain(o.name), who(st))
	case errors.Is(err, driver.ErrUnknown), errors.Is(err, context.DeadlineExceeded):
		return failf(exitUnavailable, "%v; the hold may have ended: check with lockport status", lookError(err))
	}
	return lookError(err)
}

// oneHolder is st with the holder whose id is owner alone, or with the only one if owner is empty.
func oneHolder(st lockport.Status, owner string) (lockport.Status, error) {
	if owner == "" && len(st.Others) > 0 {
		return st, usagef("%s has %d holders: give --owner with the id of one, as lockport status shows it", plain(st.Name), 1+len(st.Others))
	}
	for _, h := range append([]lockport.Status{st}, st.Others...) {
		if owner == "" || h.Owner == owner {
			h.Others = nil
			return h, nil
		}
	}
	return st, failf(exitFailed, "nothing was ended: %s is not held by %s", plain(st.Name), legible(owner))
}

// losses says what else would be lost with a session.
func losses(shared *driver.SharedSessionError) string {
	const most = 20 // names that are shown
	var names []string
	for _, name := range slices.Sorted(slices.Values(shared.Names))[:min(len(shared.Names), most)] {
		names = append(names, plain(name))
	}
	more := shared.Others - len(names)
	if shared.Others < 0 {
		return "its other locks, which are not known, would be lost"
	}
	if len(names) > 0 && more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	locks, list := "locks", ""
	if shared.Others == 1 {
		locks = "lock"
	}
	if len(names) > 0 {
		list = ": " + strings.Join(names, ", ")
	}
	return fmt.Sprintf("%d other %s would be lost%s", shared.Others, locks, list)
}

// ended says what has been done, and what has not.
func ended(st lockport.Status, v *view) string {
	done := fmt.Sprintf("ended: %s is no longer held by %s.", plain(st.Name), who(st))
	if st.Foreign {
		return done + " Whether that holder notices is up to it: it may be at work still."
	}
	told := " It is told when it would renew"
	if notice := v.caps.RemovalNotice; notice != nil {
		told = fmt.Sprintf(" It is told within %v", notice(v.ttl).Round(time.Millisecond))
		if notice(v.ttl) != notice(2*v.ttl) {
			told += fmt.Sprintf(" (if its TTL is %v)", v.ttl)
		}
	}
	told += ", and may be at work until then"
	if v.caps.Token != driver.TokenNone {
		told += ": what checks fencing tokens is safe from that"
	}
	return done + told + "."
}

// instead says what to do where a hold cannot be ended by force.
func instead(st lockport.Status, caps driver.Capabilities) string {
	switch process := caps.Ends == driver.EndsProcess; {
	case process && st.PID > 0:
		return fmt.Sprintf("it ends with its process: kill %d (on %s)", st.PID, legible(st.Host))
	case process:
		return "it ends with its process"
	case st.PID > 0:
		return fmt.Sprintf("end its process, %d on %s", st.PID, legible(st.Host))
	}
	return "end its holder"
}

// asks asks a question that is answered with yes or no, which is no.
func (c *console) asks(question string) bool {
	_, _ = fmt.Fprintf(c.err, "%s [y/N] ", question)
	answer, err := c.in.ReadString('\n')
	if err != nil {
		_, _ = fmt.Fprintln(c.err)
		return false
	}
	return slices.Contains([]string{"y", "yes"}, strings.ToLower(strings.TrimSpace(answer)))
}
