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
	Begin = "<!-- Written by make bench from docs/benchmarks/*.json: do not edit. -->\n"
	End   = "<!-- end of what is written by make bench -->\n"
)

// Folder is where results and pictures are, below the folder of the page.
const Folder = "benchmarks"

// Page renders the results of docs/benchmarks/*.json: tables into docs/benchmarks.md, between its two lines, and pictures.
func Page(docs string) error {
	files, err := Files(docs)
	if err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(docs, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// Files are what [Page] writes, by their names below docs.
func Files(docs string) (map[string]string, error) {
	const page = "benchmarks.md"
	text, err := os.ReadFile(filepath.Join(docs, page))
	if err != nil {
		return nil, err
	}
	runs, err := result.ReadAll(filepath.Join(docs, Folder))
	if err != nil {
		return nil, err
	}
	files := make(map[string]string)
	if files[page], err = place(string(text), Section(runs)); err != nil {
		return nil, fmt.Errorf("%s: %w", page, err)
	}
	for _, r := range runs {
		for _, f := range stage.Families {
			if picture := Picture(r, f); picture != nil {
				files[filepath.Join(Folder, f.Name+".svg")] = string(picture)
			}
		}
	}
	return files, nil
}

// place puts the text between the two lines of a page.
func place(page, text string) (string, error) {
	before, rest, found := strings.Cut(page, Begin)
	if !found {
		return "", fmt.Errorf("there is no line %q", strings.TrimSpace(Begin))
	}
	_, after, found := strings.Cut(rest, End)
	if !found {
		return "", fmt.Errorf("there is no line %q", strings.TrimSpace(End))
	}
	return before + Begin + "\n" + text + "\n" + End + after, nil
}

// Section is what the page says of the runs of all families.
func Section(runs []*result.Results) string {
	var b strings.Builder
	b.WriteString(Goals(runs))
	for _, f := range stage.Families {
		for _, r := range runs {
			family(&b, r, f)
		}
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
			setup := s.Setup
			if f.Kind != "" {
				setup = fmt.Sprintf("%s %s, %s", f.Kind, r.Servers[f.Kind], setup)
			}
			fmt.Fprintf(b, "\n## %s\n\n%s%s. Measured on %s: medians of %d turns on %d cores of %s, %s, %s.\n\n", f.Title, strings.ToUpper(setup[:1]), setup[1:],
				r.Made.Format("2 January 2006"), r.Turns, r.Machine.Cores, r.Machine.Processor, r.Machine.System, strings.Replace(r.Machine.Go, "go", "Go ", 1))
			if !r.Comparable {
				b.WriteString("**This was a quick run, which shows that the program works: its figures mean nothing.**\n\n")
			}
			for _, l := range r.Libraries {
				if l.Family == f.Name {
					fmt.Fprintf(b, "- **%s**%s: %s. Renewed by %s.\n", l.Name, version(l), l.How, l.Renewal)
				}
			}
			if Picture(r, f) != nil {
				fmt.Fprintf(b, "\n![%s: how many times better lockport did than the others](%s/%s.svg)\n", f.Title, Folder, f.Name)
			}
		}
		fmt.Fprintf(b, "\n**%s%s** (`%s`)\n\n%s", strings.ToUpper(s.Title[:1]), s.Title[1:], s.Name, Table(s))
	}
}

func version(l result.Library) string {
	if l.Version == "" {
		return ""
	}
	return " (" + l.Module + " " + strings.TrimPrefix(l.Version, "v") + ")"
}
