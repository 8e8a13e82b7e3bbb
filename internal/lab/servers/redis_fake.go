package servers

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
)

// FakeRedis is a server in this process that says which version of Redis it is, and no more: it answers PING, AUTH, SELECT,
// CLIENT and INFO, and to all else "ERR unknown command", as an old server does to HELLO.
type FakeRedis struct {
	addr, version string
}

// NewFakeRedis returns a fake of the version ("5.0.14") for t. It needs no installed program.
func NewFakeRedis(t testing.TB, version string) *FakeRedis {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &FakeRedis{addr: listener.Addr().String(), version: version}
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
func (f *FakeRedis) Addr() string { return f.addr }

// URL is "redis://" and the address.
func (f *FakeRedis) URL() string { return "redis://" + f.addr }

// serve answers until the peer closes or ctx ends.
func (f *FakeRedis) serve(ctx context.Context, conn net.Conn) {
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	for requests := bufio.NewReader(conn); ; {
		request, err := readRESP(requests) // a request is an array of strings, as a reply may be
		if err != nil {
			return
		}
		command, _ := request.([]any)
		if _, err := conn.Write([]byte(f.answer(command))); err != nil {
			return
		}
	}
}

func (f *FakeRedis) answer(command []any) string {
	if len(command) == 0 {
		return "-ERR Protocol error\r\n"
	}
	switch name := strings.ToUpper(fmt.Sprint(command[0])); name {
	case "PING":
		return "+PONG\r\n"
	case "AUTH", "SELECT", "CLIENT":
		return "+OK\r\n"
	case "INFO":
		info := "# Server\r\nredis_version:" + f.version + "\r\nredis_mode:standalone\r\n"
		return fmt.Sprintf("$%d\r\n%s\r\n", len(info), info)
	default:
		return fmt.Sprintf("-ERR unknown command `%s`\r\n", name)
	}
}
