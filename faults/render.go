package faults

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// The lines of a page between which the rendered text stands.
const (
	renderBegin = "<!-- rendered by package faults: begin -->"
	renderEnd   = "<!-- rendered by package faults: end -->"
)

// Render writes, as Markdown, what is stated of all cells and beside it what was measured: a table that gives the outcomes at a glance, one with
// the reasons for each arrangement, and those of the figures. The stated part is what code says, so that only it and the file of figures can change the page.
func Render(arrangements []Arrangement, m Measured) string {
	var b strings.Builder
	b.WriteString(renderedIntroduction)
	row(&b, "arrangement", Safe.String(), Unavailable.String(), UnsafeFenced.String(), Unsafe.String())
	row(&b, "---", "---", "---", "---", "---")
	for i := range arrangements {
		a := &arrangements[i]
		row(&b, a.Title, a.faultsWith(Safe), a.faultsWith(Unavailable), a.faultsWith(UnsafeFenced), a.faultsWith(Unsafe))
	}
	for i := range arrangements {
		arrangements[i].render(&b, m.Cells)
	}
	m.render(&b, arrangements)
	return b.String()
}

const renderedIntroduction = `*Safe*: nobody believes to hold a lock that somebody else holds. *Unavailable*: safe, and nobody acquires while the fault lasts.
*Unsafe but fenced*: two can believe to hold a lock, and their tokens rise, so that a fence refuses the older one's writes.
*Unsafe*: two can believe to hold a lock, and no token tells them apart.

`

// Splice puts a rendered text in its place in a page: between the two comments that say so.
func Splice(page, rendered string) (string, error) {
	before, rest, begins := strings.Cut(page, renderBegin+"\n")
	_, after, ends := strings.Cut(rest, renderEnd)
	if !begins || !ends {
		return "", fmt.Errorf("faults: the page has no two lines %s and %s", renderBegin, renderEnd)
	}
	return before + renderBegin + "\n\n" + strings.TrimSpace(rendered) + "\n\n" + renderEnd + after, nil
}

// row writes a row of a table.
func row(b *strings.Builder, cells ...string) {
	for _, c := range cells {
		b.WriteString("| " + strings.ReplaceAll(c, "|", `\|`) + " ")
	}
	b.WriteString("|\n")
}

// faultsWith names the faults with an outcome.
func (a *Arrangement) faultsWith(o Outcome) string {
	var names []string
	for _, c := range a.Cells {
		if c.Outcome == o {
			names = append(names, c.Fault)
		}
	}
	return strings.Join(names, ", ")
}

// render writes the section of an arrangement.
func (a *Arrangement) render(b *strings.Builder, measured map[string]Figures) {
	tokens := "no fencing tokens"
	if a.Tokens {
		tokens = "fencing tokens"
	}
	fmt.Fprintf(b, "\n### %s\n\nBackend %s, TTL %v, %s.\n\n", a.Title, a.Backend, a.TTL, tokens)
	row(b, "fault", "stated", "why", "seen")
	row(b, "---", "---", "---", "---")
	for i := range a.Cells {
		c := &a.Cells[i]
		stated := c.Outcome.String()
		if !c.Outcome.IsSafe() {
			stated = "**" + stated + "**"
		}
		f, ran := measured[CellKey(a, c)]
		row(b, c.Fault, stated, c.Why, c.seen(&f, ran))
	}
}

// seen says what a cell's phases have shown.
func (c *Cell) seen(f *Figures, ran bool) string {
	switch {
	case !ran && c.Argued:
		return "by argument, not shown"
	case !ran:
		return "not run"
	}
	text := fmt.Sprintf("%s, %s: %s", count(f.Phases, "phase"), count(f.Acquisitions, "hold"), count(f.Overlaps, "overlap"))
	if c.Argued {
		text += "; by argument"
	}
	return text
}

// count writes "1 hold", "1,200 holds".
func count(n int, of string) string {
	if n != 1 {
		of += "s"
	}
	return thousands(n) + " " + of
}

// render writes the tables of figures.
func (m *Measured) render(b *strings.Builder, arrangements []Arrangement) {
	if len(m.Arrangements) == 0 {
		return
	}
	fmt.Fprintf(b, "\n### Figures\n\n%s, %s in %s; seed %d; %s", count(m.Run.Phases, "phase"), count(m.Run.Faults, "fault"), m.Run.Duration, m.Run.Seed, m.Run.Machine)
	for _, of := range slices.Sorted(maps.Keys(m.Run.Versions)) {
		fmt.Fprintf(b, ", %s %s", of, m.Run.Versions[of])
	}
	b.WriteString(".\n\nOverlaps, tokens, updates and acquisitions must be 0, the other two all:\n\n")
	row(b, "arrangement", "holds", "overlaps in safe cells", "tokens that repeat or fall", "updates lost behind the fence", "silence told in time",
		"`Valid` false after a pause past the deadline", "acquisitions that hung")
	row(b, "---", "---:", "---:", "---:", "---:", "---:", "---:", "---:")
	for i := range arrangements {
		a := &arrangements[i]
		f, ran := m.Arrangements[a.Name]
		if !ran {
			continue
		}
		tokens, lost := "none", "no fence"
		if a.Tokens {
			tokens, lost = thousands(f.TokenFaults), thousands(f.LostFenced)
		}
		row(b, a.Title, thousands(f.Acquisitions), thousands(m.safeOverlaps(a)), tokens, lost, part(f.Silent-f.SilentLate, f.Silent), part(f.Paused-f.PausedValid, f.Paused), thousands(f.Hung))
	}
	b.WriteString("\nTimes in milliseconds: half of all, 99 in 100, the longest (and how many there were):\n\n")
	row(b, "arrangement", "another has the lock of a killed holder", "somebody acquires after the fault", "each worker does", "a removed lock's holder is told",
		"silence is told after the deadline", "return after the context's end")
	row(b, "---", "---:", "---:", "---:", "---:", "---:", "---:")
	for i := range arrangements {
		a := &arrangements[i]
		if f, ran := m.Arrangements[a.Name]; ran {
			row(b, a.Title, f.Takeover.String(), f.Recovery.String(), f.RecoveryOfEach.String(), f.RemovalNotice.String(), f.TellingAfter.String(), f.LateReturn.String())
		}
	}
}

// safeOverlaps is how many overlaps there were in the cells of a that are stated to have none.
func (m *Measured) safeOverlaps(a *Arrangement) int {
	n := 0
	for i := range a.Cells {
		if c := &a.Cells[i]; c.Outcome.IsSafe() {
			n += m.Cells[CellKey(a, c)].Overlaps
		}
	}
	return n
}

// part writes "50 of 50".
func part(n, all int) string {
	if all == 0 {
		return "none seen"
	}
	return thousands(n) + " of " + thousands(all)
}

// String writes quantiles for people, in whole milliseconds, tenths where they are few.
func (s *Samples) String() string {
	q := s.Quantiles()
	if q.N == 0 {
		return "–"
	}
	ms := func(d time.Duration) string {
		d = d.Round(100 * time.Microsecond) // as a file has it
		text := strings.TrimSuffix(milliseconds(d), " ms")
		if d.Abs() >= 10*time.Millisecond {
			text = strings.TrimSuffix(milliseconds(d.Round(time.Millisecond)), ".0 ms")
		}
		return text
	}
	return fmt.Sprintf("%s / %s / %s (%s)", ms(q.P50), ms(q.P99), ms(q.Max), thousands(q.N))
}
