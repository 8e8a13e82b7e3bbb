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
func (f *Fake) URL() string { return f.url }

// listen calls serve for each connection until the end of t.
func listen(t testing.TB, serve func(net.Conn)) (addr string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
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
	return listener.Addr().String()
}

// NewFakeRedis returns a fake Redis of the version ("5.0.14") for t. It answers PING, AUTH, SELECT, CLIENT and INFO, and to all
// else "ERR unknown command", as an old server does to HELLO.
func NewFakeRedis(t testing.TB, version string) *Fake {
	t.Helper()
	addr := listen(t, func(conn net.Conn) {
		for requests := bufio.NewReader(conn); ; {
			command, err := readCommand(requests)
			if err != nil {
				return
			}
			answer := fmt.Sprintf("-ERR unknown command `%s`\r\n", command)
			switch command {
			case "PING":
				answer = "+PONG\r\n"
			case "AUTH", "SELECT", "CLIENT":
				answer = "+OK\r\n"
			case "INFO":
				info := "# Server\r\nredis_version:" + version + "\r\nredis_mode:standalone\r\n"
				answer = fmt.Sprintf("$%d\r\n%s\r\n", len(info), info)
			}
			if _, err := io.WriteString(conn, answer); err != nil {
				return
			}
		}
	})
	return &Fake{addr, "redis://" + addr}
}

// readCommand reads one command, which is a list of strings with their lengths, and returns its name.
func readCommand(r *bufio.Reader) (name string, err error) {
	count := func() int {
		line, readErr := r.ReadString('\n')
		n, numErr := strconv.Atoi(strings.TrimLeft(strings.TrimSpace(line), "*$"))
		if readErr != nil || numErr != nil {
			err = io.ErrUnexpectedEOF
		}
		return n
	}
	for i, words := 0, count(); i < words && err == nil; i++ {
		word := make([]byte, count()+2)
		if err == nil {
			_, err = io.ReadFull(r, word)
		}
		if i == 0 {
			name = strings.ToUpper(strings.TrimSpace(string(word)))
		}
	}
	return name, err
}

// NewFakeMySQL returns a fake MySQL of the version ("5.5.62", "5.5.5-10.1.48-MariaDB") for t. It lets everybody in, answers SELECT VERSION()
// and, with OK, whatever is no question; to all other questions it says that it does not understand.
func NewFakeMySQL(t testing.TB, version string) *Fake {
	t.Helper()
	// Protocol 4.1, mysql_native_password, and a session numbered 1: https://mariadb.com/kb/en/clientserver-protocol/
	greeting := "\x0a" + version + "\x00" + "\x01\x00\x00\x00" + "12345678\x00" + "\x08\x82" + "\x21" + "\x02\x00" + "\x08\x00" + "\x15" +
		strings.Repeat("\x00", 10) + "123456789012\x00" + "mysql_native_password\x00"
	addr := listen(t, func(conn net.Conn) {
		err := sendPackets(conn, 0, greeting)
		for first := true; err == nil; first = false {
			var header [4]byte
			if _, err := io.ReadFull(conn, header[:]); err != nil {
				return
			}
			number := header[3]
			header[3] = 0
			request := make([]byte, binary.LittleEndian.Uint32(header[:]))
			if _, err := io.ReadFull(conn, request); err != nil {
				return
			}
			if first {
				request = nil // the login
			}
			err = sendPackets(conn, number+1, mySQLAnswer(request, version)...)
		}
	})
	return &Fake{addr, "mysql://lockport:pw@" + addr + "/lockport"}
}

// mySQLAnswer is what is said to one request.
func mySQLAnswer(request []byte, version string) []string {
	const ok, eof = "\x00\x00\x00\x02\x00\x00\x00", "\xfe\x00\x00\x02\x00"
	text := func(s string) string { return string(rune(len(s))) + s }
	query, isQuery := strings.CutPrefix(string(request), "\x03")
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

func sendPackets(conn net.Conn, number byte, packets ...string) error {
	for i, packet := range packets {
		header := binary.LittleEndian.AppendUint32(nil, uint32(len(packet)))
		header[3] = number + byte(i)
		if _, err := conn.Write(append(header, packet...)); err != nil {
			return err
		}
	}
	return nil
}
