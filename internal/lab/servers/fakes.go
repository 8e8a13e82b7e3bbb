package servers

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// NewFakeRedis returns the address of a server in this process, until the end of t, that says it is a Redis of the version ("5.0.14"), and little else. It answers PING, AUTH, SELECT, CLIENT and INFO, and to all
// else "ERR unknown command", as an old server does to HELLO.
func NewFakeRedis(t testing.TB, version string) (addr string) {
	t.Helper()
	listener, err := net.Listen("tcp", hostPort(0))
	if err != nil {
		t.Fatal(err)
	}
	info := "# Server\r\nredis_version:" + version + "\r\nredis_mode:standalone\r\n"
	answers := map[string]string{
		"PING": "+PONG", "AUTH": "+OK", "SELECT": "+OK", "CLIENT": "+OK", "INFO": fmt.Sprintf("$%d\r\n%s", len(info), info),
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for conn, err := listener.Accept(); err == nil; conn, err = listener.Accept() {
			serving.Go(func() {
				defer func() { _ = conn.Close() }()
				defer context.AfterFunc(t.Context(), func() { _ = conn.Close() })()
				answerRedis(conn, answers)
			})
		}
	})
	t.Cleanup(func() { // t.Context has ended by now
		_ = listener.Close()
		serving.Wait()
	})
	return listener.Addr().String()
}

// answerRedis answers commands until the connection ends.
func answerRedis(conn net.Conn, answers map[string]string) {
	for lines := bufio.NewScanner(conn); lines.Scan(); { // "*2": two words follow, a line for the length of each and one for the word
		words, _ := strconv.Atoi(strings.TrimPrefix(lines.Text(), "*"))
		var command string
		for i := 0; i < 2*words && lines.Scan(); i++ {
			if i == 1 {
				command = strings.ToUpper(lines.Text())
			}
		}
		answer, known := answers[command]
		if !known {
			answer = fmt.Sprintf("-ERR unknown command `%s`", command)
		}
		_, _ = io.WriteString(conn, answer+"\r\n")
	}
}
