package house

import (
	"fmt"
	"slices"
)

// rule is one rule of the house. check reports every breach of it.
type rule struct {
	text  string
	check func(t *tree, report func(where, what string))
}

func allRules() []rule { return slices.Concat(importRules, useRules, folderRules, linkRules) }

// breaches returns what breaks the rules in t, a line each.
func (t *tree) breaches() []string {
	var lines []string
	for _, r := range allRules() {
		r.check(t, func(where, what string) { lines = append(lines, fmt.Sprintf("%s: %s. %s", where, what, r.text)) })
	}
	return lines
}

// importRule makes a rule about the imports of files: every import of a file that applies picks must be allowed.
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

// only makes a rule about all imports of the package in dir: they are of the standard library, or in allowed.
func only(dir, text string, allowed ...string) rule {
	return importRule(text, shippedIn(dir), func(_ *source, r reference) bool {
		return r.standard() || r.ours && slices.Contains(allowed, r.dir)
	})
}

// useRule makes a rule about what files mention of other packages: names maps a package to its forbidden identifiers.
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

// shippedIn picks the files in dir, not below it, that are part of the package rather than of its tests.
func shippedIn(dir string) func(*source) bool {
	return func(s *source) bool { return !s.test && s.dir == dir }
}

// library picks what a program that uses the library is linked with: the root, driver, backends and what they share.
func library(s *source) bool {
	return !s.test && (s.dir == "." || s.dir == "driver" || s.dir == "fence" || s.dir == "leader" || fenceOf(s.dir) != "" || backendOf(s.dir) != "" || sharedInternal(s.dir))
}

// testTools are the packages of internal/ that serve tests and tools, and are not for the library.
var testTools = []string{"internal/lab", "internal/pages", "internal/lab/fencetest", "internal/house"}

func isTestTool(dir string) bool {
	return slices.ContainsFunc(testTools, func(tool string) bool { return under(dir, tool) })
}

func sharedInternal(dir string) bool { return under(dir, "internal") && !isTestTool(dir) }
