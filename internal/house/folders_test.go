package house

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
)

// folderRules are about the files of backends, adapters and decisions.
var folderRules = []rule{
	{"Every backend has the same files: see CONTRIBUTING.md.", func(t *tree, report func(where, what string)) {
		for _, name := range t.backends() {
			dir := "backend/" + name
			for _, file := range []string{"doc.go", "conformance_test.go", "example_test.go"} {
				if !t.has(dir, file) {
					report(dir, "has no "+file)
				}
			}
			if page := name + ".md"; !t.has("docs/backends", page) {
				report(dir, "has no page docs/backends/"+page)
			}
		}
	}},

	{"A suite proves something only if it runs: conformance_test.go must call it.", func(t *tree, report func(where, what string)) {
		for _, s := range t.files {
			if isBackend(s) && s.name == "conformance_test.go" && !slices.ContainsFunc(s.uses(), func(u use) bool {
				return u.pkg == module+"/conformance" && u.ident == "Test"
			}) {
				report(s.dir+"/"+s.name, "does not call conformance.Test")
			}
		}
	}},

	{"A backend's conformance_test.go must be under 40 lines: servers and faults come from internal/lab.", func(t *tree, report func(where, what string)) {
		for _, s := range t.files {
			lines := s.set.File(s.syntax.Pos()).LineCount()
			if isBackend(s) && s.name == "conformance_test.go" && lines >= 40 && s.dir == "backend/"+backendOf(s.dir) {
				report(s.dir+"/"+s.name, fmt.Sprintf("has %d lines", lines))
			}
		}
	}},

	{"The command offers every backend.", func(t *tree, report func(where, what string)) {
		for _, name := range t.backends() {
			if !slices.ContainsFunc(t.files, func(s *source) bool {
				return shippedIn("backend/all")(s) && slices.ContainsFunc(s.imports, func(r reference) bool { return r.dir == "backend/"+name })
			}) {
				report("backend/all", "does not import backend/"+name)
			}
		}
	}},

	{"An adapter is a nested module with a README: see CONTRIBUTING.md.", func(t *tree, report func(where, what string)) {
		all, _ := fs.Glob(t.fsys, "adapters/*")
		for _, dir := range all {
			for _, file := range []string{"go.mod", "README.md"} {
				if !t.has(dir, file) {
					report(dir, "has no "+file)
				}
			}
		}
	}},

	{"A decision is a file docs/decisions/NNNN-title.md with a unique number.", func(t *tree, report func(where, what string)) {
		holders := make(map[string]string)
		all, _ := fs.Glob(t.fsys, "docs/decisions/*")
		for _, where := range all {
			name := path.Base(where)
			if !decisionName.MatchString(name) {
				report(where, "has a wrong form of name")
				continue
			}
			if other := holders[name[:4]]; other != "" {
				report(where, "has the same number as "+other)
			}
			holders[name[:4]] = name
		}
	}},
}

var decisionName = regexp.MustCompile(`^[0-9]{4}-[a-z0-9-]+\.md$`)
