package report

import (
	"regexp"
	"strings"
	"time"
	"unicode"
)

// Micros formats microseconds with three significant digits: "85µs", "1.24ms", "12s".
func Micros(us float64) string {
	took, unit := time.Duration(us*1e3), time.Duration(1)
	for took/unit >= 1000 {
		unit *= 10
	}
	return took.Round(unit).String()
}

// Millis formats milliseconds.
func Millis(ms float64) string { return Micros(ms * 1e3) }

var unusual = regexp.MustCompile(`[^A-Za-z0-9]`)

// anchorOf turns a text into an anchor, or a part of a file name: "H7" stays, "replicas=1" becomes "replicas-1".
func anchorOf(name string) string { return unusual.ReplaceAllString(name, "-") }

// cut shortens text to most characters.
func cut(text string, most int) string {
	if runes := []rune(text); len(runes) > most {
		return string(runes[:max(0, most-1)]) + "…"
	}
	return text
}

// printable replaces control characters, such as those that move a terminal's cursor, with spaces, except those in except.
func printable(text, except string) string {
	return strings.Map(func(r rune) rune {
		if (unicode.IsControl(r) || r == 0xfffe || r == 0xffff) && !strings.ContainsRune(except, r) {
			return ' '
		}
		return r
	}, text)
}
