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

// NewFakeRedis returns the address of a fake Redis of the given version ("5.0.14"), served by this process until t ends. It answers INFO, rejects
// HELLO with "ERR unknown command" as an old server does, and answers everything else with "OK".
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

// answerRedis answers commands until the client closes the connection.
func answerRedis(conn net.Conn, answers map[string]string) {
	defer func() { _ = conn.Close() }()
	for lines := bufio.NewScanner(conn); lines.Scan(); { // "*2": two words follow, each as a line with its length and a line with the word
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
