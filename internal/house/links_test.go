package house

import (
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// linkRules hold that what pages and comments refer to exists. Nested modules are looked at too.
var linkRules = []rule{
	{"A page links to files that exist.", func(t *tree, report func(where, what string)) {
		t.texts([]string{".md"}, func(page, text string) {
			for _, link := range linkTarget.FindAllStringSubmatch(text, -1) {
				target, _, _ := strings.Cut(link[1], "#")
				if target != "" && !strings.Contains(target, ":") && !t.has(path.Dir(page), target) {
					report(page, "links to "+target)
				}
			}
		})
	}},

	{"A comment names decisions that exist.", func(t *tree, report func(where, what string)) {
		t.texts([]string{".go", ".sh"}, func(file, text string) {
			for _, name := range decisionMention.FindAllString(text, -1) {
				if !t.has(".", name) && path.Base(file) != "planted_test.go" {
					report(file, "names "+name)
				}
			}
		})
	}},
}

var decisionMention = regexp.MustCompile(`docs/decisions/[0-9]{4}[a-z0-9-]*\.md`)

// texts calls look with each file of the tree that has one of the extensions.
func (t *tree) texts(extensions []string, look func(file, text string)) {
	_ = fs.WalkDir(t.fsys, ".", func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && file != "." && skipped(entry.Name()):
			return fs.SkipDir
		case entry.IsDir() || !slices.Contains(extensions, path.Ext(file)):
			return nil
		}
		text, err := fs.ReadFile(t.fsys, file)
		look(file, string(text))
		return err
	})
}
