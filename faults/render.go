package faults

import (
	"fmt"
	"strings"

	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/play"
)

// The headings that others are not.
const (
	commonHeading   = "Faults of workers and their network"
	measuredHeading = "What was measured"
)

// Render writes, as Markdown, what is stated of all cells and what was measured: all arrangements at a glance, the common faults, the faults of
// each arrangement with their reasons, and the figures. The stated part is what code says, so that only it and the file of figures can change the page.
func Render(arrangements []Environment, m Measured) string {
	p := page{arrangements: arrangements, measured: m, ran: len(m.Arrangements) > 0}
	p.glance()
	p.common()
	for i := range arrangements {
		p.section(i)
	}
	p.figures()
	for i := range arrangements {
		a := &arrangements[i]
		fmt.Fprintf(&p.out, "[%s]: %s\n", a.Name, anchor(a.heading()))
	}
	return p.out.String()
}

// page is what is being rendered.
type page struct {
	arrangements []Environment
	measured     Measured
	ran          bool
	out          strings.Builder
}

func (p *page) heading(text string) { fmt.Fprintf(&p.out, "### %s\n\n", text) }

// of are the figures of a cell, and whether it was run.
func (p *page) of(a *Environment, c *play.Cell) (history.Figures, bool) {
	f, ran := p.measured.Cells[CellKey(&a.Environment, c)]
	return f, ran && f.Phases > 0
}

func (a *Environment) heading() string { return capital(a.Title) }

// link leads to the arrangement's section. The page ends with where the names lead, so that they do not stand between the words.
func (a *Environment) link() string { return "[" + a.Name + "]" }

// glance writes the table in which each arrangement has a row.
func (p *page) glance() {
	p.heading("At a glance")
	t := table{numbers: 5, ragged: 3}
	t.row("arrangement", "what it is", play.Unsafe.String(), play.UnsafeFenced.String(), play.Unavailable.String(), play.Safe.String())
	for i := range p.arrangements {
		a := &p.arrangements[i]
		safe := 0
		for _, c := range a.Cells {
			if c.Outcome == play.Safe {
				safe++
			}
		}
		t.row(a.link(), a.Title, a.faultsWith(play.Unsafe), a.faultsWith(play.UnsafeFenced), a.faultsWith(play.Unavailable), fmt.Sprint(safe))
	}
	t.write(&p.out)
	paragraph(&p.out, "*Unsafe*: two can believe to hold one lock, and no token tells them apart. *Unsafe but fenced*: two can believe it, and their tokens rise, "+
		"so that a [fence](fencing.md) refuses what the older one writes. *Unavailable*: nobody acquires while the fault lasts, and nobody believes to "+
		"hold what another holds. *Safe*, of which only the number is here: nobody ever believes that. Each fault is explained below: under "+
		"[%s](%s), or under its arrangement.", lower(commonHeading), anchor(commonHeading))
	p.bothWays()
}

// faultsWith names the faults with an outcome.
func (a *Environment) faultsWith(o play.Outcome) string {
	var names []string
	for _, c := range a.Cells {
		if c.Outcome == o {
			names = append(names, c.Fault)
		}
	}
	if names == nil {
		return "–"
	}
	return strings.Join(names, ", ")
}

// bothWays writes what a run has shown of the table as a whole: of what is stated to be safe, and of what is not.
func (p *page) bothWays() {
	if !p.ran {
		paragraph(&p.out, "Not run yet: what follows is stated, and nothing of it measured.")
		return
	}
	var overlapped, phases, shown, unsafe, missing int
	for i := range p.arrangements {
		a := &p.arrangements[i]
		for j := range a.Cells {
			c := &a.Cells[j]
			f, ran := p.of(a, c)
			switch {
			case !ran:
				missing++
			case c.Outcome.IsSafe():
				overlapped += f.Overlapped
				phases += f.Phases
			case !c.Argued:
				unsafe++
				if f.Overlapped > 0 {
					shown++
				}
			}
		}
	}
	text := fmt.Sprintf("In the [run below](%s), two believed to hold one lock in %s phases of faults that are stated to be safe or to leave locks unavailable, and "+
		"under %s faults that are stated to be unsafe (where that is not argued alone).", anchor(measuredHeading),
		missed(part(overlapped, phases), overlapped > 0), missed(part(shown, unsafe), shown < unsafe))
	if missing > 0 {
		text += fmt.Sprintf(" Not run: %s.", count(missing, "fault"))
	}
	paragraph(&p.out, "%s", text)
}
