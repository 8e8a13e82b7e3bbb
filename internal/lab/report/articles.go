package report

import (
	"fmt"
	"html/template"
	"slices"
	"strings"
)

// lesson is one of the articles whose locks are compared.
type lesson struct{ number, language, teaches string }

// lessons are the articles by their numbers, which hazards name.
var lessons = []lesson{
	{"000", "PHP", "SETNX, EXPIRE and DEL; then SET NX EX, and a script that releases; waiters ask every 200 ms, ten times"},
	{"001", "Python", "SETNX and EXPIRE, and a release by WATCH and MULTI; waiters ask every millisecond; and what if the server is down"},
	{"002", "Java", "Redlock as Redisson has it: five servers, asked one after the other"},
	{"003", "Java", "SETNX with the id of a thread, released by a plain DEL, by GET and then DEL, and by a script at last"},
	{"004", "PHP", "SET NX EX with an owner of four digits, a script that releases, waiters that ask every 5 ms; and what Redlock does not solve"},
}

// aboutLessons says what the articles are.
const aboutLessons = "Five articles in Chinese teach locks on Redis by their failures. They are named by numbers here. " +
	"Their locks were rebuilt as small as the articles have them, each broken in the one step that its hazard is about."

// taught tells that something in the report is of an article.
func (r *Report) taught() bool {
	return slices.ContainsFunc(r.Hazards, func(h Hazard) bool { return len(h.Articles) > 0 }) ||
		slices.ContainsFunc(r.Cells, func(c Cell) bool { return c.Subject == Article })
}

// lessonTable is the list of the articles.
func lessonTable() table {
	t := table{head: []string{"article", "language", "what it teaches"}}
	for _, l := range lessons {
		t.rows = append(t.rows, []string{l.number, l.language, l.teaches})
		t.ids = append(t.ids, lessonID(l.number))
	}
	return t
}

func lessonID(number string) string { return "article-" + number }

// linked names articles with links to the list of them: "article 002", "articles 002 and 004".
func linked(numbers []string, link func(number, id string) string) string {
	names := slices.Clone(numbers)
	for i, number := range numbers {
		if slices.ContainsFunc(lessons, func(l lesson) bool { return l.number == number }) {
			names[i] = link(number, lessonID(number))
		} else {
			names[i] = link(number, "")
		}
	}
	if len(names) == 1 {
		return "article " + names[0]
	}
	return "articles " + list(names)
}

// linkedHTML is linked for a page.
func linkedHTML(numbers []string) template.HTML {
	return template.HTML(linked(numbers, func(number, id string) string {
		if id == "" {
			return escape(number)
		}
		return fmt.Sprintf(`<a href="#%s">%s</a>`, id, escape(number))
	}))
}

// linkedMarkdown is linked for Markdown.
func linkedMarkdown(numbers []string) string {
	return linked(numbers, func(number, id string) string {
		if id == "" {
			return md(number)
		}
		return fmt.Sprintf("[%s](#%s)", md(strings.TrimSpace(number)), id)
	})
}
