package faults

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/play"
)

// brief is an outcome in a word.
func brief(o play.Outcome) string {
	return [...]string{"safe", "away", "**fenced**", "**unsafe**"}[o]
}

// cell finds a cell by the name of its fault, nil if there is none.
func (a *Environment) cell(fault string) *play.Cell {
	if i := slices.IndexFunc(a.Cells, func(c play.Cell) bool { return c.Fault == fault }); i >= 0 {
		return &a.Cells[i]
	}
	return nil
}

// common writes what is stated of the faults that any arrangement can have: each reason once, and then all arrangements by all of these faults.
func (p *page) common() {
	p.heading(commonHeading)
	paragraph(&p.out, "They come to the processes that lock, and to what is between them and the servers. Nearly everywhere they end alike:")
	head := []string{"arrangement"}
	for _, c := range Common(false) {
		head = append(head, c.Fault)
		p.reasons(&c)
	}
	p.out.WriteString("\n")
	t := table{numbers: len(head)}
	t.row(head...)
	for i := range p.arrangements {
		a := &p.arrangements[i]
		cells := []string{a.link()}
		for _, fault := range head[1:] {
			cells = append(cells, p.inBrief(a, a.cell(fault)))
		}
		if slices.ContainsFunc(cells[1:], func(c string) bool { return c != "–" }) {
			t.row(cells...)
		}
	}
	t.write(&p.out)
	paragraph(&p.out, "*fenced* is unsafe but fenced, *away* is unavailable, – is where the fault cannot happen, or is not made. 3/50: two believed to hold one lock in "+
		"3 of 50 phases; without such figures it was not run.")
}

// inBrief is a cell of the table of common faults.
func (p *page) inBrief(a *Environment, c *play.Cell) string {
	if c == nil {
		return "–"
	}
	text := brief(c.Outcome)
	if f, ran := p.of(a, c); ran {
		text += " " + missed(fmt.Sprintf("%d/%d", f.Overlapped, f.Phases), disproved(c, &f))
	}
	return text
}

// disproved says that what was seen contradicts what is stated.
func disproved(c *play.Cell, f *history.Figures) bool {
	return c.Outcome.IsSafe() == (f.Overlapped > 0) && !(c.Argued && f.Overlapped == 0)
}

// reasons writes why a common fault ends as it does: as c says, and where an arrangement says something else, that, once for all that say so.
func (p *page) reasons(c *play.Cell) {
	text := fmt.Sprintf("**%s**: %s. %s", c.Fault, stated(c), sentence(c.Why))
	type saying struct{ stated, why string }
	var others []saying
	where := make(map[saying][]string)
	for i := range p.arrangements {
		a := &p.arrangements[i]
		o := a.cell(c.Fault)
		if o == nil || o.Why == c.Why && o.Outcome == c.Outcome {
			continue
		}
		says := saying{why: o.Why}
		if o.Outcome != c.Outcome {
			says.stated = " " + stated(o)
		}
		if where[says] == nil {
			others = append(others, says)
		}
		where[says] = append(where[says], a.link())
	}
	for _, o := range others {
		text += fmt.Sprintf(" On %s%s: %s", list(where[o]), o.stated, ended(o.why))
	}
	item(&p.out, "%s", text)
}

// stated is what is stated, without the reason.
func stated(c *play.Cell) string {
	text := "*" + c.Outcome.String() + "*"
	if c.Argued {
		text += " by argument"
	}
	return text
}

// section writes what is stated of an arrangement, and of no other: the worst first.
func (p *page) section(at int) {
	a := &p.arrangements[at]
	p.heading(a.heading())
	tokens := "no fencing tokens"
	if a.Tokens {
		tokens = "fencing tokens"
	}
	intro := fmt.Sprintf("Backend [%s](backends/%s.md), TTL %s, %s. `go test ./faults -run 'TestCells/%s$' -v` runs it.", a.Backend, a.Backend, lasts(a.TTL), tokens, a.Name)
	_, ran := p.measured.Arrangements[a.Name]
	if p.ran && !ran {
		intro += " Not run."
	}
	own, others := a.own()
	if others != "" {
		intro += fmt.Sprintf(" Of the [%s](%s), %s.", lower(commonHeading), anchor(commonHeading), others)
	}
	twin := p.twin(at, own)
	if twin != nil {
		intro += fmt.Sprintf(" What is stated is what is stated of %s, for the same reasons.", twin.link())
	}
	paragraph(&p.out, "%s", intro)
	for _, o := range []play.Outcome{play.Unsafe, play.UnsafeFenced, play.Unavailable, play.Safe} {
		for _, c := range own {
			if c.Outcome != o || twin != nil && !ran {
				continue
			}
			text := fmt.Sprintf("**%s**: %s", c.Fault, stated(c))
			if ran {
				text += ", " + p.seen(a, c)
			}
			text += "."
			if twin == nil {
				text += " " + sentence(c.Why)
			}
			item(&p.out, "%s", text)
		}
	}
	if !strings.HasSuffix(p.out.String(), "\n\n") {
		p.out.WriteString("\n")
	}
}

// own are the cells that only this arrangement has, and in others it is said which of the common ones end otherwise here than they usually do.
func (a *Environment) own() (own []*play.Cell, others string) {
	common := Common(false)
	var names [play.Unsafe + 1][]string
	for i := range a.Cells {
		c := &a.Cells[i]
		at := slices.IndexFunc(common, func(u play.Cell) bool { return u.Fault == c.Fault })
		switch {
		case at < 0:
			own = append(own, c)
		case common[at].Outcome != c.Outcome:
			names[c.Outcome] = append(names[c.Outcome], c.Fault)
		}
	}
	var texts []string
	for o, some := range names {
		switch len(some) {
		case 0:
		case 1:
			texts = append(texts, some[0]+" is "+play.Outcome(o).String())
		default:
			texts = append(texts, list(some)+" are "+play.Outcome(o).String())
		}
	}
	return own, strings.Join(texts, "; ")
}

// twin is an earlier arrangement, if there is one, of which all is stated that is stated of this one.
func (p *page) twin(at int, own []*play.Cell) *Environment {
	for i := range p.arrangements[:at] {
		t := &p.arrangements[i]
		if !slices.ContainsFunc(own, func(c *play.Cell) bool {
			o := t.cell(c.Fault)
			return o == nil || o.Outcome != c.Outcome || o.Why != c.Why || o.Argued != c.Argued
		}) && t.Backend == p.arrangements[at].Backend && len(own) > 1 {
			return t
		}
	}
	return nil
}

// seen says what a cell's phases have shown.
func (p *page) seen(a *Environment, c *play.Cell) string {
	f, ran := p.of(a, c)
	if !ran {
		return "not run"
	}
	text := fmt.Sprintf("two believed in %s phases", part(f.Overlapped, f.Phases))
	if c.Outcome.IsSafe() {
		text += fmt.Sprintf(" (%s)", count(f.Acquisitions, "hold"))
	}
	return missed(text, disproved(c, &f))
}
