package report

import "strings"

// slug makes a part of an anchor, or of a file's name, of a text: "replicas=1" is "replicas-1".
func slug(text string) string { return strings.Trim(strings.ToLower(anchorOf(text)), "-") }

// anchorOf is slug where capitals stay: "H7".
func anchorOf(name string) string {
	return strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' {
			return r
		}
		return '-'
	}, name)
}
