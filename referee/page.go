package main

import (
	"bytes"
	_ "embed"
	"regexp"
	"strings"
	"text/template"

	"github.com/lockport/lockport/referee/repro"
)

// names matches the names of the suite's locks, which differ between runs.
var names = regexp.MustCompile(`lpc-[-0-9a-f]+`)

//go:embed page.md.tmpl
var pageTemplate string

// templates are that of the page, and "result" of its section about one result.
var templates = template.Must(template.New("page").Funcs(template.FuncMap{
	"promises": func() any { return promises }, "reproductions": func() any { return repro.All }, "titleOf": titleOf,
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
