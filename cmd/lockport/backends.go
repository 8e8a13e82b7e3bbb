package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
)

func backendsVerb(_ context.Context, c *console, args []string) error {
	if err := newOptions("backends").parseAlone(args); err != nil {
		return err
	}
	// A table would be too wide for a terminal: each promise has a line.
	schemes := lockport.DefaultMux().Schemes()
	t := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	for _, row := range capabilityTable(schemes) {
		fmt.Fprintf(t, "%s\n", row[0])
		for i, cell := range row[1:] {
			fmt.Fprintf(t, "  %s\t%s\n", capabilityColumns[i+1], cell)
		}
		fmt.Fprintln(t)
	}
	fmt.Fprintln(t, "URLs")
	for i, s := range schemes {
		fmt.Fprintf(t, "  %s\t%s\n", s.Name, s.Example)
		if i+1 < len(schemes) && slices.Equal(s.Params, schemes[i+1].Params) {
			continue // shown once, after the last scheme that has them
		}
		for _, p := range s.Params {
			fmt.Fprintf(t, "    %s\t%s\n", p.Name, p.Text)
		}
	}
	fmt.Fprintf(t, "\nEvery URL takes the parameter ttl: how long a lock stays taken if its holder goes silent; default %v.\n", lockport.DefaultTTL)
	return t.Flush()
}

// capabilityColumns are the headings of the table of promises; promises fills a row.
var capabilityColumns = []string{
	"URL schemes", "released on silence by", "TTL", "tokens rise", "order", "waiting", "on fail-over",
	fmt.Sprintf("removal noticed (TTL %v)", lockport.DefaultTTL), "also",
}

func promises(caps driver.Capabilities) []string {
	ttl := "any"
	switch {
	case caps.FixedTTL > 0:
		ttl = "the session's"
	case caps.MinTTL > caps.TTLGrain:
		ttl = fmt.Sprintf("from %v", caps.MinTTL)
	}
	if caps.TTLGrain > 0 {
		ttl = strings.TrimPrefix(ttl+fmt.Sprintf(", multiples of %v", caps.TTLGrain), "any, ")
	}
	notice := "at the deadline"
	if caps.RemovalNotice != nil {
		notice = caps.RemovalNotice(lockport.DefaultTTL).Round(time.Millisecond).String()
	}
	var modes []string
	for _, mode := range []struct {
		has  bool
		name string
	}{{caps.Shared, "readers"}, {caps.Permits, "permits"}, {caps.Detach, "detach"}} {
		if mode.has {
			modes = append(modes, mode.name)
		}
	}
	return []string{
		caps.Ends.String(), ttl, caps.Token.String(), caps.Fair.String(), caps.Wake.String(), caps.Failover.String(), notice,
		cmp.Or(strings.Join(modes, ", "), "nothing"),
	}
}

// capabilityTable has one row for all schemes with the same promises.
func capabilityTable(schemes []lockport.Scheme) [][]string {
	var rows [][]string
	for _, s := range schemes {
		cells := promises(s.Capabilities)
		if i := slices.IndexFunc(rows, func(row []string) bool { return slices.Equal(row[1:], cells) }); i >= 0 {
			rows[i][0] += ", " + s.Name
		} else {
			rows = append(rows, append([]string{s.Name}, cells...))
		}
	}
	return rows
}
