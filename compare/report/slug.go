package report

import "strings"

// slug makes a part of an anchor, or of a file's name, of a text: "replicas=1" is "replicas-1".
func slug(text string) string {
	return strings.Trim(strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9':
			return r
		case 'A' <= r && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '-'
	}, text), "-")
}
