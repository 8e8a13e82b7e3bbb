package house

import (
	"fmt"
	"slices"
)

// rule is one rule of the repository. check reports every violation.
type rule struct {
	text  string
	check func(t *tree, report func(where, what string))
}

func allRules() []rule { return slices.Concat(importRules, useRules, folderRules, linkRules) }

// violations returns a line for each violation of the rules in t.
func (t *tree) violations() []string {
	var lines []string
	for _, r := range allRules() {
		r.check(t, func(where, what string) { lines = append(lines, fmt.Sprintf("%s: %s. %s", where, what, r.text)) })
	}
	return lines
}

// importRule makes a rule about imports: in files that applies selects, every import must be allowed.
func importRule(text string, applies func(*source) bool, allowed func(*source, reference) bool) rule {
	return rule{text, func(t *tree, report func(where, what string)) {
		for _, s := range t.files {
			if !applies(s) {
				continue
			}
			for _, r := range s.imports {
				if !allowed(s, r) {
					report(s.at(r.pos), "imports "+r.path)
				}
			}
		}
	}}
}

// only makes a rule about all imports of the package in dir: they must be in the standard library or in allowed.
func only(dir, text string, allowed ...string) rule {
	return importRule(text, shippedIn(dir), func(_ *source, r reference) bool {
		return r.standard() || r.ours && slices.Contains(allowed, r.dir)
	})
}

// useRule makes a rule about the use of other packages: names maps a package to its forbidden identifiers.
func useRule(text string, applies func(*source) bool, names map[string][]string, excepted func(*source, use) bool) rule {
	return rule{text, func(t *tree, report func(where, what string)) {
		for _, s := range t.files {
			if !applies(s) {
				continue
			}
			for _, u := range s.uses() {
				if slices.Contains(names[u.pkg], u.ident) && (excepted == nil || !excepted(s, u)) {
					report(s.at(u.pos), "uses "+u.pkg+"."+u.ident)
				}
			}
		}
	}}
}

// shippedIn selects the non-test files in dir, not below it.
func shippedIn(dir string) func(*source) bool {
	return func(s *source) bool { return !s.test && s.dir == dir }
}

// library selects the code that programs link: the root, driver, fences, leader, backends and shared code.
func library(s *source) bool {
	return !s.test && (s.dir == "." || s.dir == "driver" || s.dir == "fence" || s.dir == "leader" || fenceOf(s.dir) != "" || backendOf(s.dir) != "" || sharedInternal(s.dir))
}

// testTools are the packages of internal/ for tests and tools, which the library must not use.
var testTools = []string{"internal/lab", "internal/pages", "internal/lab/fencetest", "internal/house"}

func isTestTool(dir string) bool {
	return slices.ContainsFunc(testTools, func(tool string) bool { return under(dir, tool) })
}

func sharedInternal(dir string) bool { return under(dir, "internal") && !isTestTool(dir) }
