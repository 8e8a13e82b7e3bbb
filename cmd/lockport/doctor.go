package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lockurl"
)

func doctorVerb(ctx context.Context, c *console, args []string) error {
	options := newOptions("doctor")
	server := options.server()
	asJSON := options.Bool("json", false, "")
	if err := options.parseAlone(args); err != nil {
		return err
	}
	rawURL, err := server.url()
	if err != nil {
		return err
	}
	client, err := openServer(ctx, rawURL)
	if err != nil {
		return err
	}
	defer client.Close()
	d := newDiagnosis(rawURL, client.Capabilities(), client.Notices()...)
	if *asJSON {
		err = encode(c.out, d)
	} else {
		err = writeDiagnosis(c.out, d)
	}
	if err != nil {
		return failf(exitFailed, "the findings cannot be written: %v", err)
	}
	if len(d.Endangers) > 0 {
		err = exitWith(exitFailed)
	}
	return err
}

// diagnosis is doctor's report, in JSON.
type diagnosis struct {
	URL       string          `json:"url"`
	Backend   string          `json:"backend"`
	TTLMS     int64           `json:"ttl_ms,omitempty"`
	Endangers []driver.Notice `json:"endangers"`
	Unknown   []driver.Notice `json:"unknown"`
}

func newDiagnosis(rawURL string, caps driver.Capabilities, notices ...driver.Notice) *diagnosis {
	d := &diagnosis{URL: lockurl.Address(rawURL), Backend: caps.Backend, Endangers: []driver.Notice{}, Unknown: []driver.Notice{}}
	if caps.Ends != driver.EndsProcess {
		d.TTLMS = clientTTL(rawURL, caps).Milliseconds()
	}
	for _, n := range notices {
		list := &d.Endangers
		if n.Unknown {
			list = &d.Unknown
		}
		*list = append(*list, n)
	}
	return d
}

func writeDiagnosis(w io.Writer, d *diagnosis) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%s)\n", d.URL, d.Backend)
	if d.TTLMS > 0 {
		fmt.Fprintf(&b, "A lock is released after at most %v of silence.\n", time.Duration(d.TTLMS)*time.Millisecond)
	} else {
		b.WriteString("A lock ends with its process.\n")
	}
	for _, part := range []struct {
		title string
		all   []driver.Notice
	}{{"Risks to locks", d.Endangers}, {"Not checked", d.Unknown}} {
		if len(part.all) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n%s\n", part.title)
		for _, f := range part.all {
			fmt.Fprintf(&b, "\n%s\n  %s\n  Remedy: %s\n", f.ID, f.Text, f.Remedy)
		}
	}
	verdict := "No risks found"
	if n := len(d.Endangers); n > 0 {
		verdict = fmt.Sprintf("Risks found: %d", n)
	}
	if n := len(d.Unknown); n > 0 {
		verdict += fmt.Sprintf("; not checked: %d", n)
	}
	fmt.Fprintf(&b, "\n%s.\n", verdict)
	_, err := io.WriteString(w, b.String())
	return err
}
