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

// README.zh-CN.md and README.md have the same content: change both together. No test can read both languages. This one compares the parts that do
// not depend on the language. TestTableInReadme, in cmd/lockport, checks the table's words.
func TestChineseReadme(t *testing.T) {
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join("..", "..", name))
		require.NoError(t, err)
		return string(text)
	}
	english, chinese := read("README.md"), read("README.zh-CN.md")
	require.Contains(t, english, "](README.zh-CN.md)", "README.md must link to the Chinese one")
	require.Contains(t, chinese, "](README.md)", "README.zh-CN.md must link to the English one")
	require.Greater(t, strings.Count(english, "\n#"), 4)
	english = strings.Replace(english, "](README.zh-CN.md)", "](README.md)", 1) // each links to the other
	if lines := untranslated(english, chinese); len(lines) > 0 {
		t.Errorf("README.md and README.zh-CN.md differ: make the same change in both.\n%s",
			strings.Join(lines, "\n"))
	}
}

var (
	heading     = regexp.MustCompile(`^(#+) `)
	htmlComment = regexp.MustCompile(`<!--.*?-->`)
	codeSpan    = regexp.MustCompile("`[^`]+`")
	linkTarget  = regexp.MustCompile(`\]\(([^)\s]+)[^)]*\)`)
	number      = regexp.MustCompile(`[0-9]+(?:[.,][0-9]+)*`)
	comment     = map[string]*regexp.Regexp{"sh": regexp.MustCompile(`(?:^|\s+)#.*$`), "go": regexp.MustCompile(`(?:^|\s+)//.*$`)}
)

// sections splits a Markdown page and lists, for each section, what is the same in every language: heading level, links, numbers, lines of code
// ("comment" stands for each comment), rows and items. Each list is sorted. spans are the `code` spans of each section. Text before the first
// heading is a section too.
func sections(page string) (all, spans [][]string) {
	all, spans = [][]string{nil}, [][]string{nil}
	language, fenced := "", false
	for line := range strings.Lines(page) {
		line = strings.TrimRight(line, "\n")
		if m := heading.FindStringSubmatch(line); m != nil && !fenced {
			all, spans = append(all, []string{m[1]}), append(spans, nil)
		}
		here := &all[len(all)-1]
		rest, fence := strings.CutPrefix(line, "```")
		if fence {
			language, fenced = rest, !fenced
		}
		if fence || fenced {
			if c := comment[language]; c != nil && !fence {
				line = c.ReplaceAllString(line, " comment")
			}
			*here = append(*here, "code: "+strings.TrimSpace(line))
			continue
		}
		line = htmlComment.ReplaceAllString(line, "")
		spans[len(spans)-1] = append(spans[len(spans)-1], codeSpan.FindAllString(line, -1)...)
		line = codeSpan.ReplaceAllString(line, "")
		*here = append(*here, linkTarget.FindAllString(line, -1)...)
		*here = append(*here, number.FindAllString(linkTarget.ReplaceAllString(line, "]"), -1)...)
		if strings.HasPrefix(line, "|") {
			*here = append(*here, "row")
		} else if strings.HasPrefix(line, "- ") {
			*here = append(*here, "item")
		}
	}
	for _, section := range all {
		slices.Sort(section)
	}
	return all, spans
}

// untranslated lists the differences between two pages that a translation does not explain.
func untranslated(english, chinese string) []string {
	from, fromSpans := sections(english)
	to, toSpans := sections(chinese)
	if len(from) != len(to) {
		return []string{fmt.Sprintf("The English page has %d sections, the Chinese page %d: they must have the same sections in the same order.", len(from), len(to))}
	}
	var lines []string
	for i := range from {
		if !slices.Equal(from[i], to[i]) {
			lines = append(lines, fmt.Sprintf("section %d:\n  English: %q\n  Chinese: %q", i, from[i], to[i]))
		}
		for _, span := range fromSpans[i] { // the Chinese page may have more spans, and elsewhere
			if !slices.Contains(toSpans[i], span) {
				lines = append(lines, fmt.Sprintf("section %d: the Chinese page lacks %s", i, span))
			}
		}
	}
	return lines
}

// The comparison finds every difference that matters, and no other.
func TestUntranslated(t *testing.T) {
	const english = "# Locks\n\n- One of [1,225](a.md) `Lock`s\n- Two\n\n## Try\n\n```sh\nrun # that\n```\n\n| a | b |\n| --- | --- |\n| 15s | x |\n"
	const chinese = "# 锁\n\n- `Lock` 之一，共 [1,225](a.md) 个，见 `More`\n- 二\n\n## 试\n\n```sh\nrun # 那个\n```\n\n| 甲 | 乙 |\n| --- | --- |\n| 15s | 丙 |\n"
	require.Empty(t, untranslated(english, chinese))
	for old, changed := range map[string]string{
		"## 试\n": "", "## 试": "### 试", "(a.md)": "(b.md)", "](a.md)": "]", "1,225": "1,224", "15s": "10s", "`Lock`": "`Locker`",
		"run #": "walk #", " # 那个": "", "| 15s | 丙 |\n": "15s", "- 二\n": "",
	} {
		page := strings.Replace(chinese, old, changed, 1)
		require.NotEqual(t, chinese, page, old)
		require.NotEmpty(t, untranslated(english, page), old)
	}
}
