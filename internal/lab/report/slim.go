package report

import (
	"regexp"
	"slices"
	"strings"
)

var (
	cssClass = regexp.MustCompile(`\.([a-z][a-z0-9-]*)`)
	cssRule  = regexp.MustCompile(`[^{}]+\{[^{}]*\}`)
	cssColor = regexp.MustCompile(`--([a-z0-9-]+): [^;]*;`)
	anyID    = regexp.MustCompile(`id="([^"]*)"`)
	classes  = regexp.MustCompile(`class="([^"]*)"`)
)

// styleFor are the style and the definitions that a drawing alone needs: those of all drawings are ten times as long as most of them.
func styleFor(body string) (style, defs string) {
	used := map[string]bool{"drawing": true, "paper": true}
	for _, m := range classes.FindAllStringSubmatch(body, -1) {
		for _, class := range strings.Fields(m[1]) {
			used[class] = true
		}
	}
	var rules strings.Builder
	for _, rule := range cssRule.FindAllString(drawingCSS, -1) {
		selectors, _, _ := strings.Cut(rule, "{")
		for selector := range strings.SplitSeq(selectors, ",") {
			unused := func(m []string) bool { return !used[m[1]] }
			if !slices.ContainsFunc(cssClass.FindAllStringSubmatch(selector, -1), unused) {
				rules.WriteString(strings.TrimSpace(rule) + "\n")
				break
			}
		}
	}
	for line := range strings.SplitSeq(defsSVG, "\n") { // one line is one definition
		if m := anyID.FindStringSubmatch(line); m != nil && (strings.Contains(rules.String(), "#"+m[1]+")") || strings.Contains(body, `"#`+m[1]+`"`)) {
			defs += line + "\n"
		}
	}
	if defs != "" {
		defs = "<defs>" + defs + "</defs>"
	}
	colours := cssColor.ReplaceAllStringFunc(coloursCSS, func(definition string) string {
		name := cssColor.FindStringSubmatch(definition)[1]
		if strings.Contains(rules.String(), "var(--"+name+")") || strings.Contains(defs, "var(--"+name+")") {
			return definition
		}
		return ""
	})
	return strings.Join(strings.Fields(colours), " ") + "\n" + rules.String(), defs
}
