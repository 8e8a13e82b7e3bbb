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
	switch us = finite(us); {
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
	if finite(ms) == 0 {
		return "0 ms"
	}
	return micros(ms * 1e3)
}

// significant is v with three digits that say something, and more before the point if it has more: "9.31", "1,216".
func significant(v float64) string {
	v = finite(v)
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

// count is a whole number.
func count(n int) string { return thousands(strconv.Itoa(n)) }

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

// times is a ratio with its spread: "9.31 (8.80–10.1)".
func (s Spread) times() string {
	if s.N == 0 {
		return "–"
	}
	return figureSpread(s) + " ×"
}

// times is a ratio: "9.31 ×".
func times(v float64) string { return significant(v) + " ×" }

// of is a ratio with its spread, of a thing: "9.31 × PING (8.80–10.1)".
func (s Spread) of(thing string) string {
	text := significant(s.Median) + " × " + thing
	if spread := figureSpread(s); strings.Contains(spread, "(") {
		text += strings.TrimPrefix(spread, significant(s.Median))
	}
	return text
}

// figureSpread is a figure with its spread, and without where it has none.
func figureSpread(s Spread) string {
	if s.N < 2 || s.Low == s.High {
		return significant(s.Median)
	}
	return significant(s.Median) + " (" + significant(s.Low) + "–" + significant(s.High) + ")"
}

// memory is an amount of memory: "15.6 GiB".
func memory(n int64) string {
	for i, unit := range []string{"B", "KiB", "MiB", "GiB", "TiB"} {
		if v := float64(n) / math.Pow(1024, float64(i)); v < 1024 || unit == "TiB" {
			return significant(v) + " " + unit
		}
	}
	return ""
}

// seconds is how long something took, for people: "47 s", "2 min 41 s".
func seconds(s float64) string {
	whole := int(math.Round(math.Min(finite(s), 1e9)))
	if whole < 60 {
		return strconv.Itoa(whole) + " s"
	}
	return strconv.Itoa(whole/60) + " min " + strconv.Itoa(whole%60) + " s"
}

// The ticks of axes: round numbers, without zeroes behind their point.
func tickMicros(us float64) string {
	switch {
	case us < 1e3:
		return number(us) + " µs"
	case us < 1e6:
		return number(us/1e3) + " ms"
	case us < 1e12:
		return thousands(number(us/1e6)) + " s"
	}
	return significant(us/1e6) + " s"
}

func tickMillis(ms float64) string { return tickMicros(ms * 1e3) }

func tickCount(v float64) string {
	if v < 1 || v > 1e9 {
		return strconv.FormatFloat(v, 'g', 1, 64)
	}
	return thousands(strconv.FormatFloat(v, 'f', 0, 64))
}

// list joins names: "a, b and c".
func list(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return count(n) + " " + many
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

// capital is a name as it begins a line; a single word, such as "etcd", stays as it is.
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
