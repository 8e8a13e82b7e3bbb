package render

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/lockport/lockport/bench/result"
	"github.com/lockport/lockport/bench/stage"
)

// The text that is written stands between two lines, so that what people have written around it stays.
const (
	begin = "<!-- The tables of libraries: written by make bench from docs/benchmarks.json; do not edit. -->\n"
	end   = "<!-- end of the tables of libraries -->\n"
)

// Page puts the tables and pictures into docs/benchmarks.md and docs/benchmarks/ below the folder: between the two lines, or at the end of the page if it
// has none.
func Page(r *result.Results, docs string) error {
	file := filepath.Join(docs, "benchmarks.md")
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	page, err := place(string(text), Section(r))
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	folder := filepath.Join(docs, "benchmarks")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for _, f := range stage.Families {
		if picture := Picture(r, f.Name); picture != "" {
			if err := os.WriteFile(filepath.Join(folder, f.Name+".svg"), []byte(picture), 0o644); err != nil {
				return err
			}
		}
	}
	return os.WriteFile(file, []byte(page), 0o644)
}

// place puts the text between the two lines of a page.
func place(page, text string) (string, error) {
	before, rest, found := strings.Cut(page, begin)
	if !found {
		return strings.TrimRight(page, "\n") + "\n\n" + begin + "\n" + text + "\n" + end, nil
	}
	_, after, found := strings.Cut(rest, end)
	if !found {
		return "", fmt.Errorf("there is no line %q", strings.TrimSpace(end))
	}
	return before + begin + "\n" + text + "\n" + end + after, nil
}

// Section is what the page says of a run.
func Section(r *result.Results) string {
	var b strings.Builder
	fmt.Fprintf(&b, "## Beside other libraries\n\nOne run of `make bench` on %s, %d cores of %s, %s, %s: medians of %d turns, in each of which every library had a go. ",
		r.Made.Format("2 January 2006"), r.Machine.Cores, r.Machine.Processor, r.Machine.System, r.Machine.Go, r.Turns)
	b.WriteString("Ratios are made within a turn; in parentheses what the turns gave at least and at most. *Requests* are what reached the servers in one piece, " +
		"which may be several commands. *Hand-offs* are acquisitions by another goroutine than the one before. *Overlaps* are holds that began before " +
		"another had ended, by the machine's clock.\n")
	if !r.Comparable {
		b.WriteString("\n**This was a quick run, which shows that the program works: its figures mean nothing.**\n")
	}
	for _, f := range stage.Families {
		family(&b, r, f)
	}
	return b.String()
}

func family(b *strings.Builder, r *result.Results, f stage.Family) {
	first := true
	for _, s := range r.Scenarios {
		if s.Family != f.Name {
			continue
		}
		if first {
			first = false
			fmt.Fprintf(b, "\n### %s beside others\n\n%s %s, %s.\n\n", f.Title, f.Kind, r.Servers[f.Kind], s.Setup)
			for _, l := range r.Libraries {
				if l.Family == f.Name {
					fmt.Fprintf(b, "- **%s**%s: %s. Renewed by %s.\n", l.Name, version(l), l.How, l.Renewal)
				}
			}
			fmt.Fprintf(b, "\n![The figures of the tables below as bars](benchmarks/%s.svg)\n", f.Name)
		}
		fmt.Fprintf(b, "\n**%s** (`%s`)\n\n%s", s.Title, s.Name, Table(s))
	}
}

func version(l result.Library) string {
	if l.Version == "" {
		return ""
	}
	return " (" + l.Module + " " + strings.TrimPrefix(l.Version, "v") + ")"
}
