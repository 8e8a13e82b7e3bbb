package zookeeper

import (
	"context"
	"io"
	"regexp"
	"strings"
	"time"
)

// wordTime bounds the answer to a four-letter word.
const wordTime = time.Second

// server is what a server says to four-letter words. A word that is not in its 4lw.commands.whitelist has no answer.
type server struct {
	address string
	away    bool // it cannot be reached
	answers map[string]string
	us      string // our address, as it sees it
}

// fourLetter asks a server for one word, on a connection of its own, and returns the answer, empty if there is none.
func (b *Backend) fourLetter(ctx context.Context, address, word string) (answer, us string, err error) {
	const most = 1 << 20
	conn, err := b.dial(ctx, address, wordTime)
	if err != nil {
		return "", "", err
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	_ = conn.SetDeadline(time.Now().Add(wordTime))
	if _, err := io.WriteString(conn, word); err != nil {
		return "", "", nil
	}
	all, _ := io.ReadAll(io.LimitReader(conn, most))
	answer = string(all)
	if strings.Contains(answer, word+" is not executed") || strings.Contains(answer, "not currently serving requests") {
		answer = ""
	}
	return answer, conn.LocalAddr().String(), nil
}

// ask asks a server for several words.
func (b *Backend) askWords(ctx context.Context, address string, words ...string) server {
	s := server{address: address, answers: make(map[string]string)}
	for _, word := range words {
		answer, us, err := b.fourLetter(ctx, address, word)
		if err != nil {
			s.away = true
			return s
		}
		s.answers[word], s.us = answer, us
	}
	return s
}

// line finds what stands behind a prefix in an answer, to the end of its line.
func line(answer, prefix string) string {
	m := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(prefix) + `(.*)$`).FindStringSubmatch(answer)
	if m == nil {
		return ""
	}
	return strings.TrimSpace(m[1])
}
