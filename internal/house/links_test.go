package house

import (
	"path"
	"regexp"
	"strings"
)

// linkRules check that whatever pages and comments refer to exists, also in nested modules.
var linkRules = []rule{
	{"A page links to files that exist.", func(t *tree, report func(where, what string)) {
		for _, page := range t.pages {
			for _, link := range linkTarget.FindAllStringSubmatch(page.text, -1) {
				target, _, _ := strings.Cut(link[1], "#")
				if target != "" && !strings.Contains(target, ":") && !t.has(path.Dir(page.file), target) {
					report(page.file, "links to "+target)
				}
			}
		}
	}},

	{"A comment names decisions that exist.", func(t *tree, report func(where, what string)) {
		for _, f := range t.code {
			for _, name := range decisionMention.FindAllString(f.text, -1) {
				if !t.has(".", name) && path.Base(f.file) != "planted_test.go" {
					report(f.file, "names "+name)
				}
			}
		}
	}},
}

var decisionMention = regexp.MustCompile(`docs/decisions/[0-9]{4}[a-z0-9-]*\.md`)
