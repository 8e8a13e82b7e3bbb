package report

import (
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// micros is a time of so many microseconds, for people: "85 µs", "1.24 ms", "12.0 s".
func micros(us float64) string {
	switch {
	case us < 9.95:
		return strconv.FormatFloat(us, 'f', 1, 64) + " µs"
	case us < 999.5:
		return significant(us) + " µs"
	case us < 999.5e3:
		return significant(us/1e3) + " ms"
	}
	return significant(us/1e6) + " s"
}

// millis is a time of so many milliseconds.
func millis(ms float64) string {
	if ms == 0 {
		return "0 ms"
	}
	return micros(ms * 1e3)
}

// significant is v with three significant digits, and with all digits before the point: "9.31", "1,216".
func significant(v float64) string {
	switch a := math.Abs(v); {
	case a == 0:
		return "0"
	case a < 0.01:
		return strconv.FormatFloat(v, 'g', 1, 64)
	case a < 9.995:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case a < 99.95:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case a < 1e15:
		return thousands(strconv.FormatFloat(v, 'f', 0, 64))
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// thousands puts commas between the thousands of a whole number.
func thousands(digits string) string {
	digits, minus := strings.CutPrefix(digits, "-")
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	if minus {
		return "-" + digits
	}
	return digits
}

func count(n int) string { return thousands(strconv.Itoa(n)) }

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return count(n) + " " + many
}

// times is a ratio: "9.31 ×".
func times(v float64) string { return significant(v) + " ×" }

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

// anchorOf makes an anchor, or a part of a file's name, of a text: "H7" stays, "replicas=1" becomes "replicas-1".
func anchorOf(name string) string {
	return strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' {
			return r
		}
		return '-'
	}, name)
}

// capital is a name as it begins a line. A single word, such as "etcd", stays as it is.
func capital(name string) string {
	first, size := utf8.DecodeRuneInString(name)
	if strings.Contains(name[size:], " ") {
		return string(unicode.ToUpper(first)) + name[size:]
	}
	return name
}

// fullStop is a text as a sentence of its own.
func fullStop(text string) string {
	if text == "" || strings.HasSuffix(text, ".") {
		return capital(text)
	}
	return capital(text) + "."
}

// cut is text with so many characters at most.
func cut(text string, most int) string {
	if runes := []rune(text); len(runes) > most {
		return string(runes[:max(0, most-1)]) + "…"
	}
	return text
}

// oneLine is text without control characters, such as those that move a terminal's cursor.
func oneLine(text string) string { return strings.Map(without(""), text) }

// without maps control characters, except some, to spaces.
func without(except string) func(rune) rune {
	return func(r rune) rune {
		if (unicode.IsControl(r) || r == 0xfffe || r == 0xffff) && !strings.ContainsRune(except, r) {
			return ' '
		}
		return r
	}
}
