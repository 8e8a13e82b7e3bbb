package faults

import (
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/lockport/lockport/internal/lab/history"
)

// pageWidth is where the lines of a text break, so that it can be read in a terminal as it is.
const pageWidth = 118

// table is one of Markdown, whose columns stand below each other in a terminal, too.
type table struct {
	rows [][]string
	// numbers is from which column on the cells are numbers: these end at the right.
	numbers int
	// ragged is how many columns are not to be filled up, since their cells are long lists: those before numbers.
	ragged int
}

// row adds a row. The first one is the head.
func (t *table) row(cells ...string) {
	for i, c := range cells {
		cells[i] = strings.ReplaceAll(c, "|", `\|`)
	}
	t.rows = append(t.rows, cells)
}

func (t *table) write(b *strings.Builder) {
	widths := make([]int, len(t.rows[0]))
	for _, cells := range t.rows {
		for i, c := range cells {
			if i < t.numbers-t.ragged || i >= t.numbers {
				widths[i] = max(widths[i], utf8.RuneCountInString(c), len("---:"))
			}
		}
	}
	write := func(cells []string, fill string) {
		for i, c := range cells {
			pad := strings.Repeat(fill, max(0, widths[i]-utf8.RuneCountInString(c)))
			if i < t.numbers {
				c += pad
			} else {
				c = pad + c
			}
			b.WriteString("| " + c + " ")
		}
		b.WriteString("|\n")
	}
	rule := make([]string, len(widths))
	for i := range rule {
		rule[i] = "---"
		if i >= t.numbers {
			rule[i] = "---:"
		}
	}
	write(t.rows[0], " ")
	write(rule, "-") // a number's rule keeps its colon at the end
	for _, cells := range t.rows[1:] {
		write(cells, " ")
	}
	b.WriteString("\n")
}

// paragraph writes a text in lines of the page's width.
func paragraph(b *strings.Builder, format string, args ...any) {
	wrapped(b, "", fmt.Sprintf(format, args...))
	b.WriteString("\n")
}

// item writes an item of a list.
func item(b *strings.Builder, format string, args ...any) {
	wrapped(b, "- ", fmt.Sprintf(format, args...))
}

// unbroken is what stays on one line: a word, or code, for that is to be copied.
var unbroken = regexp.MustCompile("`[^`]*`[^ ]*|[^ ]+")

// wrapped writes a text whose first line begins with first, and the others below what follows that.
func wrapped(b *strings.Builder, first, text string) {
	column := utf8.RuneCountInString(first)
	indent := strings.Repeat(" ", column)
	b.WriteString(first)
	for i, word := range unbroken.FindAllString(text, -1) {
		n := utf8.RuneCountInString(word)
		switch {
		case i > 0 && column+1+n > pageWidth:
			b.WriteString("\n" + indent)
			column = len(indent)
		case i > 0:
			b.WriteString(" ")
			column++
		}
		b.WriteString(word)
		column += n
	}
	b.WriteString("\n")
}

// anchored is what GitHub leaves of a heading, in lower case, for its anchor.
var anchored = regexp.MustCompile(`[^\p{L}\p{N} _-]`)

// anchor is where a link to a heading leads.
func anchor(heading string) string {
	return "#" + strings.ReplaceAll(anchored.ReplaceAllString(strings.ToLower(heading), ""), " ", "-")
}

// capital is s with a capital at its beginning.
func capital(s string) string {
	first, n := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(first)) + s[n:]
}

// lower is s without its capital.
func lower(s string) string {
	first, n := utf8.DecodeRuneInString(s)
	return string(unicode.ToLower(first)) + s[n:]
}

// ended is s with a full stop, and sentence has a capital, too: whoever stated a reason may have left them away.
func ended(s string) string { return strings.TrimSuffix(s, ".") + "." }

func sentence(s string) string { return capital(ended(s)) }

// list writes "a, b and c".
func list(names []string) string {
	last := len(names) - 1
	if last < 1 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// count writes "1 hold", "1,200 holds".
func count(n int, of string) string {
	if n != 1 {
		of += "s"
	}
	return history.Thousands(n) + " " + of
}

// part writes "50 of 50".
func part[T ~int | ~int64](n, all T) string {
	if all == 0 {
		return "–"
	}
	return history.Thousands(n) + " of " + history.Thousands(all)
}

// missed marks what misses its bound, so that it is seen without colours.
func missed(text string, misses bool) string {
	if misses {
		return "**" + text + " ✗**"
	}
	return text
}

// lasts writes a duration as people do: "2 s", "1 h 30 min".
func lasts(d time.Duration) string {
	var parts []string
	for _, unit := range []struct {
		of   time.Duration
		name string
	}{{time.Hour, "h"}, {time.Minute, "min"}, {time.Second, "s"}, {time.Millisecond, "ms"}} {
		if n := d / unit.of; n > 0 {
			parts = append(parts, fmt.Sprint(int64(n), " ", unit.name))
			d -= n * unit.of
		}
	}
	if parts == nil {
		return "0 s"
	}
	return strings.Join(parts, " ")
}

// inMilliseconds writes the number of milliseconds, with tenths where it is small.
func inMilliseconds(d time.Duration) string {
	d = d.Round(100 * time.Microsecond) // as a file has it
	if d.Abs() >= 10*time.Millisecond {
		return history.Thousands(d.Round(time.Millisecond).Milliseconds())
	}
	return fmt.Sprintf("%.1f", d.Seconds()*1000)
}
