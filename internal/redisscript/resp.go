package redisscript

import (
	"bufio"
	"errors"
	"io"
	"strconv"
)

// The part of the Redis protocol, version 2, that calls of scripts and their replies need.

// append appends the call as it goes to the server.
func (c *lineCall) append(b []byte) []byte {
	if c.script == nil {
		return append(b, "*1\r\n$4\r\nPING\r\n"...)
	}
	b = append(b, '*')
	b = strconv.AppendInt(b, int64(3+len(c.keys)+len(c.argv)), 10)
	b = append(b, '\r', '\n')
	if c.source {
		b = appendBulk(appendBulk(b, "EVAL"), c.script.source)
	} else {
		b = appendBulk(appendBulk(b, "EVALSHA"), c.script.sha)
	}
	b = appendBulk(b, strconv.Itoa(len(c.keys)))
	for _, k := range c.keys {
		b = appendBulk(b, k)
	}
	for _, a := range c.argv {
		b = appendBulk(b, a)
	}
	return b
}

func appendBulk(b []byte, s string) []byte {
	b = append(b, '$')
	b = strconv.AppendInt(b, int64(len(s)), 10)
	b = append(b, '\r', '\n')
	b = append(b, s...)
	return append(b, '\r', '\n')
}

var errProtocol = errors.New("the server does not speak the Redis protocol")

// maxBulk bounds what one reply may make us allocate: scripts reply with numbers and owners.
const maxBulk = 64 << 20

// readReply reads one reply: an int64, a string, nil, a []any of these, or a ReplyError as error.
func readReply(r *bufio.Reader) (any, error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	if len(line) < 3 || line[len(line)-2] != '\r' {
		return nil, errProtocol
	}
	kind, text := line[0], line[1:len(line)-2]
	switch kind {
	case '+':
		return string(text), nil
	case '-':
		return nil, ReplyError(text)
	}
	n, ok := number(text)
	switch {
	case !ok:
		return nil, errProtocol
	case kind == ':':
		return n, nil
	case n == -1 && (kind == '$' || kind == '*'):
		return nil, nil
	case n < 0 || n > maxBulk:
		return nil, errProtocol
	case kind == '$':
		buf := make([]byte, n+2)
		if _, err := io.ReadFull(r, buf); err != nil {
			return nil, err
		}
		return string(buf[:n]), nil
	case kind == '*':
		list := make([]any, 0, min(n, 1024))
		for range n {
			v, err := readReply(r)
			if err != nil {
				reply, ok := err.(ReplyError)
				if !ok {
					return nil, err
				}
				v = reply
			}
			list = append(list, v)
		}
		return list, nil
	}
	return nil, errProtocol
}

// number is strconv.ParseInt without making a string, unless the number is a very large one.
func number(text []byte) (n int64, ok bool) {
	if len(text) > 18 {
		n, err := strconv.ParseInt(string(text), 10, 64)
		return n, err == nil && text[0] != '+'
	}
	negative := len(text) > 0 && text[0] == '-'
	if negative {
		text = text[1:]
	}
	if len(text) == 0 {
		return 0, false
	}
	for _, d := range text {
		if d < '0' || d > '9' {
			return 0, false
		}
		n = n*10 + int64(d-'0')
	}
	if negative {
		n = -n
	}
	return n, true
}
