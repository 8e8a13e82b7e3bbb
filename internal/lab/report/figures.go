package report

import (
	"regexp"
	"slices"
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

// Quantiles summarize samples. The unit is stated at the field that has them.
type Quantiles struct {
	N   int     `json:"n"`
	Min float64 `json:"min"`
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// QuantilesOf returns the quantiles of samples, by nearest rank: each is a real measurement. Without samples they are zero.
func QuantilesOf(samples []float64) Quantiles {
	if len(samples) == 0 {
		return Quantiles{}
	}
	sorted := slices.Sorted(slices.Values(samples))
	at := func(percent int) float64 {
		rank := (percent*len(sorted) + 99) / 100
		return sorted[max(rank, 1)-1]
	}
	return Quantiles{N: len(samples), Min: sorted[0], P50: at(50), P99: at(99), Max: sorted[len(sorted)-1]}
}
