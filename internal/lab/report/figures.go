package report

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Micros is a time of so many microseconds, for people, with three digits that count: "85µs", "1.24ms", "12s".
func Micros(us float64) string {
	took, unit := time.Duration(us*1e3), time.Duration(1)
	for took/unit >= 1000 {
		unit *= 10
	}
	return took.Round(unit).String()
}

// Millis is a time of so many milliseconds.
func Millis(ms float64) string { return Micros(ms * 1e3) }

// significant is v with three digits that count, and with all digits before the point: "9.31", "1216".
func significant(v float64) string {
	if math.Abs(v) >= 1000 {
		return fmt.Sprintf("%.0f", v)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// String is the median with its spread: "9.31 (8.80–10.1)".
func (s Spread) String() string {
	switch {
	case s.N == 0:
		return "–"
	case s.N == 1 || s.Low == s.High:
		return significant(s.Median)
	}
	return significant(s.Median) + " (" + significant(s.Low) + "–" + significant(s.High) + ")"
}

var unusual = regexp.MustCompile(`[^A-Za-z0-9]`)

// anchorOf makes an anchor, or a part of a file's name, of a text: "H7" stays, "replicas=1" becomes "replicas-1".
func anchorOf(name string) string { return unusual.ReplaceAllString(name, "-") }

// cut is text with so many characters at most.
func cut(text string, most int) string {
	if runes := []rune(text); len(runes) > most {
		return string(runes[:max(0, most-1)]) + "…"
	}
	return text
}

// printable is text with spaces for control characters, such as those that move a terminal's cursor, except some.
func printable(text, except string) string {
	return strings.Map(func(r rune) rune {
		if (unicode.IsControl(r) || r == 0xfffe || r == 0xffff) && !strings.ContainsRune(except, r) {
			return ' '
		}
		return r
	}, text)
}
