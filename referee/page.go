package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"html"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"github.com/lockport/lockport/referee/libraries"
)

// names matches the names of the suite's locks, which differ between runs.
var names = regexp.MustCompile(`lpc-[-0-9a-f]+`)

//go:embed page.md.tmpl
var pageTemplate string

// templates are that of the page, and "result" of its section about one result.
var templates = template.Must(template.New("page").Funcs(template.FuncMap{
	"promises": func() any { return promises }, "reproductions": func() any { return Reproductions }, "titleOf": titleOf,
	"cell": func(s string) string { return strings.ReplaceAll(strings.Join(strings.Fields(s), " "), "|", `\|`) },
	"short": func(s string) string {
		s, _, _ = strings.Cut(s, "\n")
		if len(s) > 180 {
			s = strings.ToValidUTF8(s[:180], "") + " …"
		}
		return names.ReplaceAllString(s, "NAME")
	},
}).Parse(pageTemplate))

// markdown renders a template: the page, or the section of a result.
func markdown(template string, of any) []byte {
	var b bytes.Buffer
	if err := templates.ExecuteTemplate(&b, template, of); err != nil {
		panic(err) // unreachable: the template is embedded and tested
	}
	return b.Bytes()
}

func titleOf(number string) string {
	for _, p := range promises {
		if p.Number == number {
			return p.Title
		}
	}
	return number
}

// The rest is for the template.

// Reference reports whether the library is lockport itself.
func (r Result) Reference() bool { return r.Subject == libraries.Reference.Name }

// refutation is a group of cases that refute a promise for the same reason.
type refutation struct {
	Promise, Seen, Why string
	Cases              []string
}

// Refuted returns the refutations of all promises.
func (r Result) Refuted() (all []refutation) {
	for _, c := range r.Cells {
		first := len(all)
		for _, f := range c.Findings {
			if !f.Refutes(r.Runs) {
				continue
			}
			i := slices.IndexFunc(all[first:], func(x refutation) bool { return x.Why == f.Explained })
			if i < 0 {
				i = len(all) - first
				all = append(all, refutation{Promise: c.Promise, Seen: f.Seen, Why: f.Explained})
			}
			all[first+i].Cases = append(all[first+i].Cases, f.Case)
		}
	}
	return all
}

// Sometimes returns the cases that failed in some runs only.
func (r Result) Sometimes() (all []string) {
	for _, c := range r.Cells {
		for _, f := range c.Findings {
			if !f.Refutes(r.Runs) {
				all = append(all, f.Case)
			}
		}
	}
	return all
}

// Sizes of the picture.
const (
	left, top     = 190, 110
	width, height = 62, 28
)

var colours = map[Verdict]string{Held: "#2e7d32", Refuted: "#c62828", NotPromised: "#e0e0e0", NotRun: "#9e9e9e"}

// svg draws the matrix.
func (p *Page) svg() []byte {
	var b bytes.Buffer
	w, h := left+width*len(promises)+20, top+height*len(p.Results)+50
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="13" role="img">`+"\n", w, h)
	fmt.Fprintf(&b, "<title>Promises of lock libraries, %s</title>\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n", p.Date)
	for i, promise := range promises {
		x := left + width*i + width/2
		fmt.Fprintf(&b, `<text transform="translate(%d %d) rotate(-40)">%s %s</text>`+"\n", x-8, top-10, promise.Number, promise.Title)
	}
	for row, r := range p.Results {
		y := top + height*row
		fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end">%s</text>`+"\n", left-12, y+19, html.EscapeString(r.Subject))
		for i, c := range r.Cells {
			fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%d" height="%d" rx="3" fill="%s"><title>%s, %s: %s</title></rect>`+"\n",
				left+width*i, y, width-4, height-4, colours[c.Verdict], html.EscapeString(r.Subject), c.Promise, c.Verdict)
			if mark := map[Verdict]string{Held: "✓", Refuted: "✗"}[c.Verdict]; mark != "" {
				fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="middle" fill="#fff">%s</text>`+"\n", left+width*i+width/2-2, y+18, mark)
			}
		}
	}
	for i, v := range []Verdict{Held, Refuted, NotPromised, NotRun} {
		x, y := left+130*i, h-26
		fmt.Fprintf(&b, `<rect x="%d" y="%d" width="14" height="14" fill="%s"/><text x="%d" y="%d">%s</text>`+"\n", x, y, colours[v], x+20, y+12, v)
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}
