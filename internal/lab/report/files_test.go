package report

import (
	"math"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestJSON(t *testing.T) {
	for name, r := range reports(t) {
		if name == "odd" {
			require.Error(t, r.JSON(&strings.Builder{}), "figures that JSON has not")
			continue
		}
		var b strings.Builder
		require.NoError(t, r.JSON(&b), name)
		again, err := Read(strings.NewReader(b.String()))
		require.NoError(t, err, name)
		var c strings.Builder
		require.NoError(t, again.JSON(&c), name)
		require.Equal(t, b.String(), c.String(), name)
	}
	tokens := &Report{Cells: []Cell{{Runs: []Run{{Lanes: []Lane{{Spans: []Span{{Token: 1<<63 + 1}}}}, Overlaps: []Overlap{{Tokens: [2]Token{1<<53 + 1, 0}}}}}}}}
	var b strings.Builder
	require.NoError(t, tokens.JSON(&b))
	require.Contains(t, b.String(), `"token": "9223372036854775809"`, "digits that a number would lose elsewhere")
	require.Regexp(t, `"9007199254740993",\s+"0"`, b.String())
	again, err := Read(strings.NewReader(b.String()))
	require.NoError(t, err)
	require.Equal(t, tokens.Cells, again.Cells)
	_, err = Read(strings.NewReader(`{"version": 1, "cells": [{"runs": [{"overlaps": [{"tokens": ["x", "1"]}]}]}]}`))
	require.ErrorContains(t, err, "not the JSON of a report")

	_, err = Read(strings.NewReader(`{"version": 2}`))
	require.ErrorContains(t, err, "version 2")
	_, err = Read(strings.NewReader(`{}`))
	require.ErrorContains(t, err, "version 0")
	_, err = Read(strings.NewReader(`nonsense`))
	require.ErrorContains(t, err, "not the JSON of a report")
	_, err = Read(strings.NewReader(`{"version": 1} {`))
	require.Error(t, err)
}

func TestSummary(t *testing.T) {
	for name, r := range reports(t) {
		for line := range strings.SplitSeq(strings.TrimSuffix(r.Summary(), "\n"), "\n") {
			require.LessOrEqual(t, utf8.RuneCountInString(line), 100, name)
			require.NotContains(t, line, "\x1b", name)
		}
	}
	text := sample(t).Summary()
	require.Regexp(t, regexp.MustCompile(`(?m)^ +article +file +redis +redlock +etcd +zookeeper +postgres +mysql$`), text)
	require.Regexp(t, regexp.MustCompile(`(?m)^H7 +- +- +fenced 1/1 +safe 0/1`), text)
	require.Regexp(t, regexp.MustCompile(`(?m)^ +replicas=1: redis away 1/1$`), text, "the variant has a line of its own")
	require.Regexp(t, regexp.MustCompile(`(?m)^ +paused: redlock safe\* 0/3$`), text, "and a late write that landed a star")
	require.Regexp(t, regexp.MustCompile(`(?m)^\* +and yet a late write landed$`), text)
	require.NotContains(t, text, "Sentinel", "what a full run alone plays is left out")
	require.Regexp(t, regexp.MustCompile(`(?m)^etcd +[0-9.]+ ms +[0-9.]+ ms`), text)
	require.Equal(t, "Nothing was run.\n", (&Report{}).Summary())
}

func TestMarkdown(t *testing.T) {
	for name, r := range reports(t) {
		var b strings.Builder
		require.NoError(t, r.Markdown(&b), name)
		text := b.String()
		pictures := r.Pictures()
		for _, m := range regexp.MustCompile(`\(pictures/([^)]*)\)`).FindAllStringSubmatch(text, -1) {
			require.Contains(t, pictures, m[1], name)
		}
		ids := make(map[string]bool)
		for _, m := range regexp.MustCompile(`<a id="([^"]*)"></a>`).FindAllStringSubmatch(text, -1) {
			require.False(t, ids[m[1]], "%s: two places are called %s", name, m[1])
			ids[m[1]] = true
		}
		for _, tag := range regexp.MustCompile(`<[^>]*>`).FindAllString(regexp.MustCompile("`[^`]*`").ReplaceAllString(text, ""), -1) {
			require.Regexp(t, `^(<br>|<a id="[A-Za-z0-9-]+">|</a>)$`, tag, name)
		}
		for _, m := range regexp.MustCompile(`\]\(#([^)]*)\)`).FindAllStringSubmatch(text, -1) {
			require.True(t, ids[m[1]], "%s: nothing is called %s", name, m[1])
		}
		for i := range r.Cells {
			require.True(t, ids[r.Cells[i].ID()], name)
		}
		for i := range r.Costs {
			require.True(t, ids[r.Costs[i].id()], name)
		}
		head := 0 // each row has as many cells as its table's head
		for line := range strings.SplitSeq(text, "\n") {
			cells := strings.Count(line, "|") - strings.Count(line, `\|`)
			switch {
			case !strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "|-"):
				head = 0
			case head == 0:
				head = cells
			default:
				require.Equal(t, head, cells, "%s: %s", name, line)
			}
		}
	}
	var b strings.Builder
	require.NoError(t, sample(t).Markdown(&b))
	require.Contains(t, b.String(), "\n| [H8](#H8) A Redlock node restarts without its data | [– not run](#H8-article) | [– not run](#H8-file) | [– not run](#H8-redis) | "+
		"[unsafe](#H8-redlock) (1 of 1)<br>delayed restart: [safe](#H8-redlock-delayed-restart) (0 of 1) |")
	require.Contains(t, b.String(), "paused: [safe](#H6-redlock-paused) (0 of 3), **late write landed**")
	require.NotContains(t, b.String(), "(#H7-redis-sentinel)")
	require.Contains(t, b.String(), `<a id="H7-redis-sentinel"></a>**Redis (Sentinel)**: – not run`)
	require.Contains(t, b.String(), `<a id="costs-redis"></a>Redis | `)
	require.Contains(t, b.String(), "it: [002](#article-002), [004](#article-004).")
	require.Contains(t, b.String(), "![Who held the lock when](pictures/H7-redis-replicas-1.svg)")
	require.Contains(t, b.String(), "pgbouncer")
}

func TestFigures(t *testing.T) {
	for want, got := range map[string]string{
		"0.0 µs": micros(0), "85.0 µs": micros(85), "1.24 ms": micros(1240), "12.0 s": micros(12e6), "999 µs": micros(999.4), "1.00 ms": micros(999.6),
		"2.10 s": millis(2100), "0 ms": millis(0), "1,234 s": micros(1234e6), "0.004": significant(0.004), "-1,216": significant(-1216), "0": significant(math.NaN()),
		"1,000,000":        count(1e6),
		"9.31 (8.80–10.1)": Spread{3, 9.31, 8.8, 10.1}.String(), "–": Spread{}.String(),
	} {
		require.Equal(t, want, got)
	}
}

func TestCellID(t *testing.T) {
	require.Equal(t, "H7-redis", (&Cell{Hazard: "H7", Subject: "redis"}).ID())
	require.Equal(t, "H7-redis-replicas-1", (&Cell{Hazard: "H7", Subject: "redis", Variant: "replicas=1"}).ID())
	require.Equal(t, "H7-------etc", (&Cell{Hazard: "H7", Subject: "../../etc"}).ID(), "it is a file's name, too")
}
