package servers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// redisDo sends one command to the Redis at addr on a connection of its own, after AUTH if there is a password. The reply is
// a string, an int64, nil or a []any of these. An error reply of the server is a redisError. ctx's deadline, or 5 s, bounds it.
func redisDo(ctx context.Context, addr, password string, args ...string) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	commands := [][]string{args}
	if password != "" {
		commands = [][]string{{"AUTH", password}, args}
	}
	replies := bufio.NewReader(conn)
	var reply any
	for _, command := range commands {
		if _, err = io.WriteString(conn, respCommand(command)); err == nil {
			reply, err = readRESP(replies)
		}
		if err != nil {
			return nil, fmt.Errorf("redis %s: %s: %w", addr, command[0], errors.Join(err, context.Cause(ctx)))
		}
	}
	return reply, nil
}

// redisError is an error reply.
type redisError string

func (e redisError) Error() string { return string(e) }

func respCommand(args []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, arg := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(arg), arg)
	}
	return b.String()
}

// readRESP reads one reply of RESP2.
func readRESP(r *bufio.Reader) (any, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	line = strings.TrimRight(line, "\r\n")
	if line == "" {
		return nil, errors.New("empty line for a reply")
	}
	kind, rest := line[0], line[1:]
	switch kind {
	case '+':
		return rest, nil
	case '-':
		return nil, redisError(rest)
	}
	n, err := strconv.ParseInt(rest, 10, 64)
	switch {
	case err != nil:
		return nil, fmt.Errorf("malformed reply %q", line)
	case kind == ':':
		return n, nil
	case n < 0:
		return nil, nil
	case kind == '$':
		text := make([]byte, n+2)
		_, err := io.ReadFull(r, text)
		return string(text[:n]), err
	case kind == '*':
		list := make([]any, n)
		for i := range list {
			if list[i], err = readRESP(r); err != nil {
				return nil, err
			}
		}
		return list, nil
	}
	return nil, fmt.Errorf("malformed reply %q", line)
}
