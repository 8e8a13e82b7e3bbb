// Package way provides a proxy that can silence a server and lose a reply.
package way

import (
	"log"
	"net"
	"strings"
	"sync/atomic"
	"time"
)

// Way forwards connections from Addr to a server. With both flags set, the server is silent.
type Way struct {
	Addr                  string
	NoRequests, NoReplies atomic.Bool
	Requests              atomic.Int64 // reads from clients
	lose                  atomic.Pointer[string]
}

// To returns a Way to a server.
func To(server string) *Way {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	Check(err)
	w := &Way{Addr: l.Addr().String()}
	go func() {
		for {
			client, err := l.Accept()
			Check(err)
			behind, err := net.Dial("tcp", server)
			Check(err)
			lost := new(atomic.Bool)
			go forward(behind, client, &w.NoRequests, func(request []byte) bool {
				w.Requests.Add(1)
				if text := w.lose.Load(); text != nil && strings.Contains(string(request), *text) && w.lose.CompareAndSwap(text, nil) {
					lost.Store(true)
				}
				return true
			})
			go forward(client, behind, &w.NoReplies, func([]byte) bool { return !lost.Load() })
		}
	}()
	return w
}

// forward copies until an error, or until pass returns false. Then it closes both connections.
func forward(to, from net.Conn, held *atomic.Bool, pass func([]byte) bool) {
	defer to.Close()
	defer from.Close()
	for buffer := make([]byte, 1<<16); ; {
		n, err := from.Read(buffer)
		for held.Load() {
			time.Sleep(time.Millisecond)
		}
		if err != nil || !pass(buffer[:n]) {
			return
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// Silence makes the server silent, or undoes that.
func (w *Way) Silence(silent bool) {
	w.NoRequests.Store(silent)
	w.NoReplies.Store(silent)
}

// Lose drops the reply to the next request that contains text, and its connection. The server executes the request.
func (w *Way) Lose(text string) { w.lose.Store(&text) }

// Check ends the program if there is an error.
func Check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
