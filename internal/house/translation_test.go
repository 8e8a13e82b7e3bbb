package house

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// README.zh-CN.md says what README.md says: whoever changes the one changes the other. No test can read both languages; this one compares what
// does not depend on them. The words of the table are held by TestChineseTable, in cmd/lockport.
func TestChineseReadme(t *testing.T) {
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join("..", "..", name))
		require.NoError(t, err)
		return string(text)
	}
	english, chinese := read("README.md"), read("README.zh-CN.md")
	require.Contains(t, english, "](README.zh-CN.md)", "README.md must link to the Chinese one")
	require.Contains(t, chinese, "](README.md)", "README.zh-CN.md must link to the English one")
	require.Greater(t, len(sections(english)), 5)
	english = strings.Replace(english, "](README.zh-CN.md)", "](README.md)", 1) // each links to the other
	if lines := untranslated(english, chinese); len(lines) > 0 {
		t.Errorf("README.zh-CN.md is not in step with README.md: put into the Chinese one what has changed in the English one, or the other way round.\n%s",
			strings.Join(lines, "\n"))
	}
}

// section is a part of a page, as far as it is the same in every language.
type section struct {
	heading, level string
	links          []string // targets, pictures included
	numbers        []string // in the text and in tables
	spans          []string // `code` in the text
	code           []string // lines of code blocks; "comment" stands for each comment
	rows, items    int      // of tables and lists
}

var (
	heading     = regexp.MustCompile(`^(#+) +(.*)$`)
	htmlComment = regexp.MustCompile(`<!--.*?-->`)
	codeSpan    = regexp.MustCompile("`[^`]+`")
	linkTarget  = regexp.MustCompile(`\]\(([^)\s]+)[^)]*\)`)
	number      = regexp.MustCompile(`[0-9]+(?:[.,][0-9]+)*`)
	comment     = map[string]*regexp.Regexp{"sh": regexp.MustCompile(`(?:^|\s+)#.*$`), "go": regexp.MustCompile(`(?:^|\s+)//.*$`)}
)

// sections takes a page of Markdown apart. What stands before the first heading, if anything does, is a section without one.
func sections(page string) []section {
	var all []section
	here := section{}
	language, fenced := "", false
	for line := range strings.Lines(page) {
		line = strings.TrimRight(line, "\n")
		if rest, ok := strings.CutPrefix(line, "```"); ok {
			language, fenced = rest, !fenced
			here.code = append(here.code, line)
			continue
		}
		if fenced {
			if c := comment[language]; c != nil {
				line = c.ReplaceAllString(line, " comment")
			}
			here.code = append(here.code, strings.TrimSpace(line))
			continue
		}
		if m := heading.FindStringSubmatch(line); m != nil {
			all = append(all, here)
			here = section{heading: line, level: m[1]}
		}
		line = htmlComment.ReplaceAllString(line, "")
		here.spans = append(here.spans, codeSpan.FindAllString(line, -1)...)
		line = codeSpan.ReplaceAllString(line, "")
		for _, m := range linkTarget.FindAllStringSubmatch(line, -1) {
			here.links = append(here.links, m[1])
		}
		here.numbers = append(here.numbers, number.FindAllString(linkTarget.ReplaceAllString(line, "]"), -1)...)
		switch {
		case strings.HasPrefix(line, "|"):
			here.rows++
		case strings.HasPrefix(line, "- "):
			here.items++
		}
	}
	return append(all, here)
}

// untranslated says where two pages in two languages differ though they should not, a line each.
func untranslated(english, chinese string) []string {
	from, to := sections(english), sections(chinese)
	if len(from) != len(to) {
		return []string{fmt.Sprintf("The English one has %d sections, the Chinese one %d: they must have the same, in the same order.", len(from)-1, len(to)-1)}
	}
	var lines []string
	for i, e := range from {
		c := to[i]
		say := func(format string, args ...any) {
			lines = append(lines, fmt.Sprintf("%q (%q): ", c.heading, e.heading)+fmt.Sprintf(format, args...))
		}
		same := func(what string, e, c []string) {
			if missing := without(e, c); len(missing) > 0 {
				say("the Chinese one lacks %s: %s", what, strings.Join(missing, "  "))
			}
			if extra := without(c, e); len(extra) > 0 {
				say("only the Chinese one has %s: %s", what, strings.Join(extra, "  "))
			}
		}
		if e.level != c.level {
			say("the headings must be of one level")
		}
		same("links to", e.links, c.links)
		same("numbers", e.numbers, c.numbers)
		for _, span := range e.spans { // the Chinese one may name more of them, and in other places
			if !slices.Contains(c.spans, span) {
				say("the Chinese one does not name %s", span)
			}
		}
		if !slices.Equal(e.code, c.code) {
			say("the code blocks must be the same but for the words of their comments, which stand in the same places\n  English: %q\n  Chinese: %q",
				without(e.code, c.code), without(c.code, e.code))
		}
		if e.rows != c.rows {
			say("the English one has %d table rows, the Chinese one %d", e.rows, c.rows)
		}
		if e.items != c.items {
			say("the English one has %d list items, the Chinese one %d", e.items, c.items)
		}
	}
	return lines
}

// without returns what of a is not in b, each as often as a has it more often.
func without(a, b []string) []string {
	left := slices.Clone(b)
	var more []string
	for _, x := range a {
		if i := slices.Index(left, x); i >= 0 {
			left = slices.Delete(left, i, i+1)
		} else {
			more = append(more, x)
		}
	}
	return more
}

// The comparison sees what it should, and only that.
func TestUntranslated(t *testing.T) {
	const english = "# Locks\n\n- One of [1,225](a.md) `Lock`s\n- Two\n\n## Try\n\n```sh\nrun # that\n```\n\n| a | b |\n| --- | --- |\n| 15s | x |\n"
	const chinese = "# 锁\n\n- `Lock` 之一，共 [1,225](a.md) 个，见 `More`\n- 二\n\n## 试\n\n```sh\nrun # 那个\n```\n\n| 甲 | 乙 |\n| --- | --- |\n| 15s | 丙 |\n"
	require.Empty(t, untranslated(english, chinese))
	for _, m := range []struct{ old, new, says string }{
		{"## 试\n", "", `2 sections, the Chinese one 1`},
		{"## 试", "### 试", "one level"},
		{"(a.md)", "(b.md)", "only the Chinese one has links to: b.md"},
		{"(a.md)", "", "lacks links to: a.md"},
		{"1,225", "1,224", "lacks numbers: 1,225"},
		{"15s", "10s", "only the Chinese one has numbers: 10"},
		{"`Lock`", "`Locker`", "does not name `Lock`"},
		{"run #", "walk #", "code blocks"},
		{" # 那个", "", "code blocks"},
		{"| 15s | 丙 |\n", "15s", "3 table rows, the Chinese one 2"},
		{"- 二\n", "", "2 list items, the Chinese one 1"},
	} {
		changed := strings.Replace(chinese, m.old, m.new, 1)
		require.NotEqual(t, chinese, changed, m.old)
		require.Regexp(t, m.says, strings.Join(untranslated(english, changed), "\n"), m.old)
	}
}
