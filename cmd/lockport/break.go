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

func breakVerb(ctx context.Context, c *console, args []string) error {
	options := newOptions("break")
	server := options.server()
	yes := options.Bool("yes", false, "")
	owner := options.String("owner", "", "")
	wholeSession := options.Bool("all-of-session", false, "")
	err := options.parse(args)
	switch {
	case err != nil:
		return err
	case options.NArg() == 0:
		return usagef("the lock's name is missing; try: lockport break --help")
	case options.Changed("owner") && *owner == "": // as from an unset variable: it would select the only holder, whoever that is
		return usagef("the owner's id is empty")
	case options.NArg() > 1:
		return usagef("break takes one lock name, not %d", options.NArg())
	case !*yes && !(c.interactive && c.answers):
		return usagef("break asks before it ends a hold, and there is no terminal to ask on: pass --yes")
	}
	name := options.Arg(0)
	url, err := server.url()
	if err != nil {
		return err
	}
	client, err := openInspector("break", url)
	if err != nil {
		return err
	}
	defer client.Close()
	caps := client.Capabilities()
	st, err := inspect(ctx, client, name)
	if err != nil {
		return err
	}
	if !st.Held {
		return failf(exitFailed, "nobody holds %q", name)
	}
	if st, err = oneHolder(st, *owner); err != nil {
		return err
	}
	_ = writeTable(c.err, st)
	if _, ok := driver.As[driver.Breaker](client.Backend()); !ok {
		return failf(exitUnavailable, "the backend %s cannot end a hold by force: end the holder's process", caps.Backend)
	}
	if !*yes && !c.confirm("End this hold?") {
		return failf(exitFailed, "nothing was ended")
	}
	limited, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	err = client.Break(limited, name, st.Owner)
	var shared *driver.SharedSessionError
	if session, ok := driver.As[driver.SessionBreaker](client.Backend()); ok && errors.As(err, &shared) {
		if !*wholeSession {
			return failf(exitUnavailable, "nothing was ended: the server can end only the whole session of the holder (%s), and %s; to end it anyway, pass --all-of-session",
				shared.Session, losses(shared))
		}
		c.say("if the holder's session (%s) ends, %s", shared.Session, losses(shared))
		if !*yes && !c.confirm("End the session?") {
			return failf(exitFailed, "nothing was ended")
		}
		limited, cancel := context.WithTimeout(ctx, answerLimit)
		defer cancel()
		err = session.BreakSession(limited, name, st.Owner)
	}
	switch {
	case err == nil:
		c.say("%s", ended(st, caps, clientTTL(url, caps)))
		return nil
	case errors.Is(err, driver.ErrLost):
		return failf(exitFailed, "nothing was ended: %q is no longer held by %s", name, who(st))
	case errors.Is(err, driver.ErrUnknown), errors.Is(err, context.DeadlineExceeded):
		return failf(exitUnavailable, "%v; the hold may have ended: check with lockport status", inspectError(err))
	}
	return inspectError(err)
}

// oneHolder is st with only the holder whose id is owner, or its only holder if owner is empty.
func oneHolder(st lockport.Status, owner string) (lockport.Status, error) {
	if owner == "" && len(st.Others) > 0 {
		return st, usagef("%q has %d holders: pass --owner with the id of one, as lockport status --json shows it", st.Name, 1+len(st.Others))
	}
	for _, h := range append([]lockport.Status{st}, st.Others...) {
		if owner == "" || h.Owner == owner {
			h.Others = nil
			return h, nil
		}
	}
	return st, failf(exitFailed, "nothing was ended: %q is not held by the owner %s", st.Name, legible(owner))
}

// losses says which other locks would be lost with a session.
func losses(shared *driver.SharedSessionError) string {
	if shared.Others < 0 {
		return "its other locks, which are not known, would be lost"
	}
	lost := fmt.Sprintf("%d other locks would be lost", shared.Others)
	if shared.Others == 1 {
		lost = "1 other lock would be lost"
	}
	if len(shared.Names) > 0 {
		lost += ": " + quoted(slices.Sorted(slices.Values(shared.Names)))
	}
	return lost
}

// ended says what was done, and what the holder may still do.
func ended(st lockport.Status, caps driver.Capabilities, ttl time.Duration) string {
	done := fmt.Sprintf("ended: %q is no longer held by %s.", st.Name, who(st))
	if st.Foreign {
		return done + " That holder may not notice, and may still be working."
	}
	learns := " The holder learns of this at its next renewal"
	if notice := caps.RemovalNotice; notice != nil {
		learns = fmt.Sprintf(" The holder learns of this within %v", notice(ttl).Round(time.Millisecond))
		if notice(ttl) != notice(2*ttl) {
			learns += fmt.Sprintf(" (if its TTL is %v)", ttl)
		}
	}
	learns += ", and may work until then"
	if caps.Token != driver.TokenNone {
		learns += "; storage that checks fencing tokens is safe"
	}
	return done + learns + "."
}

// confirm asks a yes-or-no question; the default answer is no.
func (c *console) confirm(question string) bool {
	_, _ = fmt.Fprintf(c.err, "%s [y/N] ", question)
	answer, err := c.in.ReadString('\n')
	if err != nil {
		_, _ = fmt.Fprintln(c.err)
		return false
	}
	return slices.Contains([]string{"y", "yes"}, strings.ToLower(strings.TrimSpace(answer)))
}
