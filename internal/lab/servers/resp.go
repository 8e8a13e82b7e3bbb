package servers

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// respTime bounds one command.
const respTime = 5 * time.Second

// respClient sends commands to a Redis, each on a connection of its own, so that it knows no state and no reconnecting.
type respClient struct {
	addr, user, password string
	tls                  *tls.Config // nil: none
}

// do sends one command, after AUTH if there is a password. The reply is a string, an int64, nil or a []any of these. An
// error reply of the server matches redisError with errors.As. ctx, or respTime, bounds it.
func (c respClient) do(ctx context.Context, args ...any) (any, error) {
	if len(args) == 0 {
		return nil, errors.New("redis: no command")
	}
	ctx, cancel := context.WithTimeout(ctx, respTime)
	defer cancel()
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("redis: %w", err)
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	commands := [][]any{args}
	switch {
	case c.user != "":
		commands = [][]any{{"AUTH", c.user, c.password}, args}
	case c.password != "":
		commands = [][]any{{"AUTH", c.password}, args}
	}
	replies := bufio.NewReader(conn)
	var reply any
	for _, command := range commands {
		if _, err = io.WriteString(conn, respCommand(command)); err == nil {
			reply, err = readRESP(replies)
		}
		if err != nil {
			if ctx.Err() != nil {
				err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
			}
			return nil, fmt.Errorf("redis %s: %v: %w", c.addr, command[0], err)
		}
	}
	return reply, nil
}

func (c respClient) dial(ctx context.Context) (net.Conn, error) {
	if c.tls == nil {
		return new(net.Dialer).DialContext(ctx, "tcp", c.addr)
	}
	return (&tls.Dialer{Config: c.tls}).DialContext(ctx, "tcp", c.addr)
}

// info returns the fields of one section of INFO.
func (c respClient) info(ctx context.Context, section string) (map[string]string, error) {
	reply, err := c.do(ctx, "INFO", section)
	if err != nil {
		return nil, err
	}
	return fields(reply), nil
}

// fields parses the lines "name:value" of INFO and CLUSTER INFO.
func fields(reply any) map[string]string {
	text, _ := reply.(string)
	found := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":"); ok {
			found[name] = value
		}
	}
	return found
}

// redisError is an error reply.
type redisError string

func (e redisError) Error() string { return string(e) }

func respCommand(args []any) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, arg := range args {
		text := fmt.Sprint(arg)
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(text), text)
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
