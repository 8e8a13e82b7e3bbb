package servers

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
)

// FakeMySQL is a server in this process that says which version of MySQL or MariaDB it is, and no more: it lets everybody in, answers
// SELECT VERSION() and, with OK, whatever is no question; to all other questions it says that it does not understand.
type FakeMySQL struct {
	addr, version string
}

// NewFakeMySQL returns a fake of the version ("5.5.62", "5.5.5-10.1.48-MariaDB") for t. It needs no installed program.
func NewFakeMySQL(t testing.TB, version string) *FakeMySQL {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &FakeMySQL{addr: listener.Addr().String(), version: version}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { f.serve(t.Context(), conn) })
		}
	})
	t.Cleanup(func() { // t.Context has ended by now
		_ = listener.Close()
		serving.Wait()
	})
	return f
}

// Addr is the fake's address, "127.0.0.1:port".
func (f *FakeMySQL) Addr() string { return f.addr }

// URL is "mysql://lockport:pw@", the address, and "/lockport".
func (f *FakeMySQL) URL() string { return "mysql://lockport:pw@" + f.addr + "/lockport" }

// Packets of the protocol: https://mariadb.com/kb/en/clientserver-protocol/
var (
	mySQLOK  = "\x00\x00\x00\x02\x00\x00\x00"
	mySQLEOF = "\xfe\x00\x00\x02\x00"
)

// greeting offers protocol 4.1, mysql_native_password, and a session numbered 1.
func (f *FakeMySQL) greeting() string {
	return "\x0a" + f.version + "\x00" + "\x01\x00\x00\x00" + "12345678\x00" + "\x08\x82" + "\x21" + "\x02\x00" + "\x08\x00" + "\x15" +
		strings.Repeat("\x00", 10) + "123456789012\x00" + "mysql_native_password\x00"
}

// serve answers until the peer closes or ctx ends.
func (f *FakeMySQL) serve(ctx context.Context, conn net.Conn) {
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	if send(conn, 0, f.greeting()) != nil {
		return
	}
	for first := true; ; first = false {
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
		answer := []string{mySQLOK}
		if !first && len(request) > 0 {
			answer = f.answer(request[0], string(request[1:]))
		}
		for i, packet := range answer {
			if send(conn, number+1+byte(i), packet) != nil {
				return
			}
		}
	}
}

// answer is what is said to one command.
func (f *FakeMySQL) answer(command byte, query string) []string {
	text := func(s string) string { return string(rune(len(s))) + s }
	switch {
	case command != 3 || !strings.HasPrefix(query, "SELECT") && !strings.HasPrefix(query, "SHOW"):
		return []string{mySQLOK}
	case query == "SELECT VERSION()":
		column := text("def") + text("") + text("") + text("") + text("VERSION()") + text("") +
			"\x0c\x21\x00\xff\x00\x00\x00\xfd\x00\x00\x00\x00\x00"
		return []string{"\x01", column, mySQLEOF, text(f.version), mySQLEOF}
	default:
		return []string{"\xff\x28\x04#42000You have an error in your SQL syntax"}
	}
}

func send(conn net.Conn, number byte, packet string) error {
	header := binary.LittleEndian.AppendUint32(nil, uint32(len(packet)))
	header[3] = number
	_, err := conn.Write(append(header, packet...))
	return err
}
