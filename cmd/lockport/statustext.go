package main

import (
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/lockport/lockport/driver"
)

const notKnown = "not known"

// writeDetails writes one lock upright.
func writeDetails(w io.Writer, caps driver.Capabilities, st driver.Status) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(what, text string) { fmt.Fprintf(t, "%s\t%s\n", what, text) }
	line("lock", plain(st.Name)+" ("+caps.Backend+")")
	line("holder", who(st))
	if st.Held {
		if _, ok := claimantOf(st); ok {
			line("owner", plain(st.Owner))
		}
		line("since", since(st))
		line("until", until(st, caps))
		line("token", tokenText(st, caps))
	}
	line("waiting", orElse(waiters(st), notKnown))
	return t.Flush()
}

// nameWidth is how many characters of a name the table shows at most: one long name would push all columns off the screen.
const nameWidth = 60

// short is the beginning of a name that is long.
func short(name string) string {
	if r := []rune(name); len(r) > nameWidth {
		return string(r[:nameWidth-1]) + "…"
	}
	return name
}

// writeTable writes locks side by side.
func writeTable(w io.Writer, all []driver.Status) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NAME\tHOLDER\tSINCE\tHELD\tEXPIRES IN\tTOKEN\tWAITING")
	for _, st := range all {
		at, held, left := "", "", ""
		if !st.Since.IsZero() {
			at, held = st.Since.Local().Format(time.DateTime), age(time.Since(st.Since))
		}
		if !st.Expires.IsZero() {
			left = age(time.Until(st.Expires))
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", short(plain(st.Name)), who(st),
			orElse(at, "-"), orElse(held, "-"), orElse(left, "-"), orElse(tokenOf(st), "-"), orElse(waiters(st), "-"))
	}
	return t.Flush()
}

func since(st driver.Status) string {
	if st.Since.IsZero() {
		return notKnown
	}
	return fmt.Sprintf("%s (for %s)", clockTime(st.Since), age(time.Since(st.Since)))
}

// until says when the hold ends if its holder is not heard of again.
func until(st driver.Status, caps driver.Capabilities) string {
	switch {
	case !st.Expires.IsZero():
		return fmt.Sprintf("%s (in %s), unless it is prolonged", clockTime(st.Expires), age(time.Until(st.Expires)))
	case caps.Ends == driver.EndsSession:
		return "its session ends"
	case caps.Ends == driver.EndsProcess:
		return "its process ends"
	case st.Foreign:
		return "its holder ends it: it does not expire, or that is not known"
	}
	return notKnown
}

func tokenText(st driver.Status, caps driver.Capabilities) string {
	switch token := tokenOf(st); {
	case token != "":
		return token
	case caps.Token == driver.TokenNone:
		return "none: this backend has no fencing tokens"
	case st.Foreign:
		return "none: its holder is no client of lockport"
	}
	return notKnown
}

// waiters is how many wait; empty if that is not known.
func waiters(st driver.Status) string {
	if st.Waiters < 0 {
		return ""
	}
	return strconv.Itoa(st.Waiters)
}

func clockTime(t time.Time) string { return t.Local().Format(time.DateTime + " MST") }

// age is a duration for people. Clocks of two machines may differ, so that it may be negative, which nobody wants to see.
func age(d time.Duration) string {
	grain := time.Second
	if d < 10*time.Second {
		grain = 100 * time.Millisecond
	}
	return max(d, 0).Round(grain).String()
}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
