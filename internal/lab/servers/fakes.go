package servers

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Fake is a server in this process that says which version of Redis or MySQL it is, and little else.
type Fake struct{ addr, url string }

// Addr is the fake's address, "127.0.0.1:port".
func (f *Fake) Addr() string { return f.addr }

// URL is "redis://" and the address, or "mysql://lockport:pw@", the address, and "/lockport".
func (f *Fake) URL() string { return fmt.Sprintf(f.url, f.addr) }

// newFake calls serve for each connection until the end of t.
func newFake(t testing.TB, url string, serve func(net.Conn)) *Fake {
	t.Helper()
	listener, err := net.Listen("tcp", hostPort(0))
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer func() { _ = conn.Close() }()
				defer context.AfterFunc(t.Context(), func() { _ = conn.Close() })()
				serve(conn)
			})
		}
	})
	t.Cleanup(func() { // t.Context has ended by now
		_ = listener.Close()
		serving.Wait()
	})
	return &Fake{listener.Addr().String(), url}
}

// NewFakeRedis returns a fake Redis of the version ("5.0.14") for t. It answers PING, AUTH, SELECT, CLIENT and INFO, and to all
// else "ERR unknown command", as an old server does to HELLO.
func NewFakeRedis(t testing.TB, version string) *Fake {
	t.Helper()
	info := "# Server\r\nredis_version:" + version + "\r\nredis_mode:standalone\r\n"
	answers := map[string]string{
		"PING": "+PONG", "AUTH": "+OK", "SELECT": "+OK", "CLIENT": "+OK", "INFO": fmt.Sprintf("$%d\r\n%s", len(info), info),
	}
	return newFake(t, "redis://%s", func(conn net.Conn) {
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
	})
}

// NewFakeMySQL returns a fake MySQL of the version ("5.5.62", "5.5.5-10.1.48-MariaDB") for t. It lets everybody in, answers SELECT VERSION()
// and, with OK, whatever is no question; to all other questions it says that it does not understand.
func NewFakeMySQL(t testing.TB, version string) *Fake {
	t.Helper()
	// Protocol 4.1, mysql_native_password, and a session numbered 1: https://mariadb.com/kb/en/clientserver-protocol/
	greeting := "\x0a" + version + "\x00" + "\x01\x00\x00\x00" + "12345678\x00" + "\x08\x82" + "\x21" + "\x02\x00" + "\x08\x00" + "\x15" +
		strings.Repeat("\x00", 10) + "123456789012\x00" + "mysql_native_password\x00"
	return newFake(t, "mysql://lockport:pw@%s/lockport", func(conn net.Conn) {
		send := func(number byte, packets ...string) {
			for i, packet := range packets {
				header := binary.LittleEndian.AppendUint32(nil, uint32(len(packet)))
				header[3] = number + byte(i)
				_, _ = conn.Write(append(header, packet...))
			}
		}
		send(0, greeting)
		const header = 4
		for request := make([]byte, 4<<10); ; { // which arrives whole, since it is short
			n, err := conn.Read(request)
			if n < header || err != nil {
				return
			}
			send(request[3]+1, mySQLAnswer(string(request[header:n]), version)...)
		}
	})
}

// mySQLAnswer is what is said to one request: a login, or what begins with its command.
func mySQLAnswer(request, version string) []string {
	const ok, eof = "\x00\x00\x00\x02\x00\x00\x00", "\xfe\x00\x00\x02\x00"
	text := func(s string) string { return string(rune(len(s))) + s }
	query, isQuery := strings.CutPrefix(request, "\x03")
	switch {
	case !isQuery || !strings.HasPrefix(query, "SELECT") && !strings.HasPrefix(query, "SHOW"):
		return []string{ok}
	case query == "SELECT VERSION()":
		column := text("def") + text("") + text("") + text("") + text("VERSION()") + text("") +
			"\x0c\x21\x00\xff\x00\x00\x00\xfd\x00\x00\x00\x00\x00"
		return []string{"\x01", column, eof, text(version), eof}
	}
	return []string{"\xff\x28\x04#42000You have an error in your SQL syntax"}
}
