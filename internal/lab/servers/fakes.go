package servers

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
)

// NewFakeRedis returns the address of a server in this process, until the end of t, that says it is a Redis of the version ("5.0.14"), and little else. It answers
// INFO, and to all else "OK"; but to HELLO "ERR unknown command", as an old server does.
func NewFakeRedis(t testing.TB, version string) (addr string) {
	t.Helper()
	listener, err := net.Listen("tcp", hostPort(0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	info := "redis_version:" + version + "\r\nredis_mode:standalone\r\n"
	answers := map[string]string{"INFO": fmt.Sprintf("$%d\r\n%s", len(info), info), "HELLO": "-ERR unknown command `HELLO`"}
	go func() {
		for conn, err := listener.Accept(); err == nil; conn, err = listener.Accept() {
			go answerRedis(conn, answers)
		}
	}()
	return listener.Addr().String()
}

// answerRedis answers commands until the client ends the connection.
func answerRedis(conn net.Conn, answers map[string]string) {
	defer func() { _ = conn.Close() }()
	for lines := bufio.NewScanner(conn); lines.Scan(); { // "*2": two words follow, a line for the length of each and one for the word
		words, _ := strconv.Atoi(strings.TrimPrefix(lines.Text(), "*"))
		var command string
		for i := 0; i < 2*words && lines.Scan(); i++ {
			if i == 1 {
				command = strings.ToUpper(lines.Text())
			}
		}
		_, _ = io.WriteString(conn, cmp.Or(answers[command], "+OK")+"\r\n")
	}
}
