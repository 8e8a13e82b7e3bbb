package redisscript

import (
	"bufio"
	"errors"
	"fmt"
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
		b = appendBulk(appendBulk(b, "EVALSHA"), c.script.sha.(string))
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

// appendArgs appends a call with args, which are strings and numbers, point to them, or are a Text, as it goes to the server.
func appendArgs(b []byte, args []any) []byte {
	b = append(b, '*')
	b = strconv.AppendInt(b, int64(len(args)), 10)
	b = append(b, '\r', '\n')
	for _, a := range args {
		b = appendArg(b, a)
	}
	return b
}

func appendArg(b []byte, a any) []byte {
	switch a := a.(type) {
	case string:
		return appendBulk(b, a)
	case *string:
		return appendBulk(b, *a)
	case int:
		return appendNumber(b, int64(a))
	case int64:
		return appendNumber(b, a)
	case *int64:
		return appendNumber(b, *a)
	case Text:
		return appendText(b, a)
	}
	panic(fmt.Sprintf("an argument of type %T", a))
}

func appendNumber(b []byte, n int64) []byte {
	var digits [20]byte
	text := strconv.AppendInt(digits[:0], n, 10)
	b = append(b, '$')
	b = strconv.AppendInt(b, int64(len(text)), 10)
	b = append(b, '\r', '\n')
	b = append(b, text...)
	return append(b, '\r', '\n')
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
