package zookeeper

import (
	"bytes"
	"context"
	"io"
	"regexp"
	"strings"
	"time"
)

// wordTime bounds the answer to a four-letter word.
const wordTime = time.Second

// fourLetter asks a server for one word, on a connection of its own. The answer is empty if the server gives none, or the word is
// not in its 4lw.commands.whitelist.
func (b *Backend) fourLetter(ctx context.Context, address, word string) string {
	const most = 1 << 20
	conn, err := b.dial(ctx, address, wordTime)
	if err != nil {
		return ""
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	_ = conn.SetDeadline(time.Now().Add(wordTime))
	if _, err := io.WriteString(conn, word); err != nil {
		return ""
	}
	answer, _ := io.ReadAll(io.LimitReader(conn, most))
	if bytes.Contains(answer, []byte(word+" is not executed")) || bytes.Contains(answer, []byte("not currently serving requests")) {
		return ""
	}
	return string(answer)
}

// line finds what stands behind a prefix in an answer, to the end of its line.
func line(answer, prefix string) string {
	m := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(prefix) + `(.*)$`).FindStringSubmatch(answer)
	if m == nil {
		return ""
	}
	return strings.TrimSpace(m[1])
}
