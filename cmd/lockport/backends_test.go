package main

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/pages"
)

func TestBackends(t *testing.T) {
	t.Parallel()
	code, stdout, _ := inside(t, "backends")
	require.Equal(t, 0, code)
	for _, s := range lockport.DefaultMux().Schemes() {
		require.Contains(t, stdout, s.Example)
		for _, p := range s.Params {
			require.Regexp(t, `(?m)^ +`+regexp.QuoteMeta(p.Name)+` +`+regexp.QuoteMeta(p.Text)+`$`, stdout)
		}
	}
	require.NotContains(t, stdout, "\t")
}

func TestCapabilityTable(t *testing.T) {
	caps := driver.Capabilities{
		Ends: driver.EndsTTL, MinTTL: 2 * time.Second, TTLGrain: time.Second, Token: driver.TokenData, Fair: driver.FairFIFO,
		Wake: driver.WakeNotify, Failover: driver.FailoverSafe,
		RemovalNotice: func(ttl time.Duration) time.Duration { return ttl / 3 },
	}
	rows := capabilityTable([]lockport.Scheme{
		{Name: "a", Capabilities: caps}, {Name: "b"}, {Name: "c", Capabilities: caps},
		{Name: "d", Capabilities: driver.Capabilities{FixedTTL: time.Second}},
		{Name: "e", Capabilities: driver.Capabilities{MinTTL: time.Second, TTLGrain: time.Second}},
	})
	var b strings.Builder
	require.NoError(t, writeMarkdown(&b, rows))
	require.Equal(t, strings.Join([]string{
		"|URL schemes|released on silence by|TTL|tokens rise|order|waiting|on fail-over|removal noticed (TTL 15s)|also|",
		"|---|---|---|---|---|---|---|---|---|",
		"|a, c|TTL|from 2s, multiples of 1s|while data survives|FIFO|notification|survives|5s|nothing|",
		"|b|never|any|none|none|poll|can be lost|at the deadline|nothing|",
		"|d|never|the session's|none|none|poll|can be lost|at the deadline|nothing|",
		"|e|never|multiples of 1s|none|none|poll|can be lost|at the deadline|nothing|",
		"",
	}, "\n"), b.String())
}

// chinese has the words of the table of promises in README.zh-CN.md, for everything that a backend can state.
var chinese = map[string]string{
	"URL schemes":            "URL 协议",
	"released on silence by": "持有者失联后，锁何时释放",
	"tokens rise":            "令牌递增",
	"order":                  "进程间的顺序",
	"waiting":                "等待方式",
	"on fail-over":           "故障转移时",
	removalColumn:            "锁被删除后，多久得知（TTL 15s）",
	"also":                   "还支持",

	"never": "永不", "TTL": "TTL", "session": "会话结束", "process": "进程退出",
	"any": "不限", "the session's": "与会话相同",
	"none": "无", "while data survives": "数据不丢则递增", "across fail-over": "故障转移后仍递增",
	"FIFO, advisory": "先进先出，不强制", "FIFO": "先进先出",
	"poll": "轮询", "notification": "通知", "server queue": "服务端队列",
	"server queue, else poll": "服务端队列，满后轮询",
	"can be lost":             "可能丢锁", "no fail-over": "没有故障转移", "survives": "不丢锁",
	"at the deadline": "到期时",
	"readers":         "读锁", "permits": "许可", "handing over": "移交", "nothing": "无",
}

var (
	multiples = regexp.MustCompile(`^multiples of (\S+)$`)
	from      = regexp.MustCompile(`^from (\S+)$`)
	amount    = regexp.MustCompile(`^[0-9.]+[mµ]?s$`)
)

// inChinese translates a cell of the table.
func inChinese(t *testing.T, cell string) string {
	t.Helper()
	if m := multiples.FindStringSubmatch(cell); m != nil {
		return m[1] + " 的整数倍"
	}
	if m := from.FindStringSubmatch(cell); m != nil {
		return "不小于 " + m[1]
	}
	if parts := strings.Split(cell, ", "); chinese[cell] == "" && len(parts) > 1 {
		for i := range parts {
			parts[i] = inChinese(t, parts[i])
		}
		return strings.Join(parts, "、")
	}
	if amount.MatchString(cell) {
		return cell
	}
	require.Contains(t, chinese, cell, "add the Chinese text of this table cell to chinese, in backends_test.go: %s", cell)
	return chinese[cell]
}

// The table of promises in README.md shows what the backends state. README.zh-CN.md has it in Chinese.
func TestTableInReadme(t *testing.T) {
	var b strings.Builder
	require.NoError(t, writeMarkdown(&b, capabilityTable(lockport.DefaultMux().Schemes())))
	pages.Holds(t, "../README.md", "capabilities", b.String())
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	for i, line := range lines {
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for j, cell := range cells {
			if i == 0 || i > 1 && j > 0 { // the second line is the rule, and the first column has the schemes
				cells[j] = inChinese(t, cell)
			}
		}
		lines[i] = "| " + strings.Join(cells, " | ") + " |"
	}
	pages.Holds(t, "../README.zh-CN.md", "capabilities", strings.Join(lines, "\n"))
}
