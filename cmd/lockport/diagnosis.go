package main

import (
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/examine"
)

// diagnosis is what doctor tells, in JSON.
type diagnosis struct {
	URL         string    `json:"url"`
	Backend     string    `json:"backend"`
	Server      string    `json:"server,omitempty"`
	RoundTripUS int64     `json:"round_trip_us,omitempty"`
	TTLMS       int64     `json:"ttl_ms,omitempty"`
	Endangers   []finding `json:"endangers"`
	Unknown     []finding `json:"unknown"`

	ends      driver.Ending
	ttl, took time.Duration
}

// finding is a driver.Notice.
type finding struct {
	ID     string `json:"id"`
	Text   string `json:"text"`
	Remedy string `json:"remedy"`
}

func newDiagnosis(address string, caps driver.Capabilities) *diagnosis {
	return &diagnosis{URL: address, Backend: caps.Backend, ends: caps.Ends, Endangers: []finding{}, Unknown: []finding{}}
}

// address is a URL without what may be secret: user, password and parameters.
func address(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil {
		return ""
	}
	if u.Opaque != "" || u.Host == "" && u.Path == "" {
		return u.Scheme + ":" + u.Opaque
	}
	return u.Scheme + "://" + u.Host + u.Path
}

// add adds notices, each ID once.
func (d *diagnosis) add(notices ...driver.Notice) {
	for _, n := range notices {
		list := &d.Endangers
		if n.Unknown {
			list = &d.Unknown
		}
		if !slices.ContainsFunc(*list, func(f finding) bool { return f.ID == n.ID }) {
			*list = append(*list, finding{n.ID, n.Text, n.Remedy})
		}
	}
}

func (d *diagnosis) setTTL(ttl time.Duration) { d.ttl, d.TTLMS = ttl, ttl.Milliseconds() }

func (d *diagnosis) setAnswerTime(took time.Duration) {
	d.took, d.RoundTripUS = took, took.Microseconds()
	d.add(examine.Latency(took, d.ttl)...)
}

// textWidth is how wide a line for people is at most.
const textWidth = 100

// writeDiagnosis writes d for people.
func writeDiagnosis(w io.Writer, d *diagnosis) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, d.URL)
	server := d.Server
	if server == "" {
		server = d.Backend + ", which does not tell its version"
	}
	fmt.Fprintf(t, "  server\t%s\n", server)
	if d.took > 0 {
		fmt.Fprintf(t, "  round trip\t%v\n", readable(d.took))
	}
	if d.ttl > 0 {
		fmt.Fprintf(t, "  TTL\t%v: a silent holder's lock ends after that\n", d.ttl)
	} else {
		fmt.Fprintf(t, "  TTL\tnone: a lock ends with its %v\n", d.ends)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	var b strings.Builder
	for _, part := range []struct {
		title string
		all   []finding
	}{{"What endangers locks here", d.Endangers}, {"What could not be found out", d.Unknown}} {
		if len(part.all) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n%s\n", part.title)
		for _, f := range part.all {
			fmt.Fprintf(&b, "\n%s\n%s%s", f.ID, wrap(f.Text), wrap("Remedy: "+f.Remedy))
		}
	}
	fmt.Fprintf(&b, "\n%s\n", d.verdict())
	_, err := io.WriteString(w, b.String())
	return err
}

// readable rounds a duration to what matters of it.
func readable(d time.Duration) time.Duration {
	for unit := time.Second; unit > 1; unit /= 1000 {
		if d >= unit {
			return d.Round(unit / 100)
		}
	}
	return d
}

// verdict is the last line.
func (d *diagnosis) verdict() string {
	found := "Nothing was found that endangers locks here"
	switch n := len(d.Endangers); {
	case n == 1:
		found = "1 thing endangers locks here"
	case n > 1:
		found = fmt.Sprintf("%d things endanger locks here", n)
	}
	if n := len(d.Unknown); n > 0 {
		found += fmt.Sprintf("; %d could not be found out", n)
	}
	return found + "."
}

// wrap breaks text into lines that are indented.
func wrap(text string) string {
	var b strings.Builder
	column := 0
	for word := range strings.FieldsSeq(text) {
		width := utf8.RuneCountInString(word)
		switch {
		case column == 0:
			b.WriteString("  ")
			column = 2
		case column+1+width > textWidth:
			b.WriteString("\n  ")
			column = 2
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += width
	}
	b.WriteByte('\n')
	return b.String()
}
