// Package way is what the programs in repro/ share: a proxy in front of a server, and the end on an error.
package way

import (
	"log"
	"strings"
	"time"

	"github.com/lockport/lockport/conformance/faultproxy"
)

// Way forwards connections from its Addr to a server, and injects faults.
type Way struct{ *faultproxy.Proxy }

// To returns a Way to a server.
func To(server string) Way {
	p, err := faultproxy.New(server)
	Check(err)
	return Way{p}
}

// Lose drops the reply to the next request that contains text, and closes its connection. The server executes the request.
func (w Way) Lose(text string) {
	w.DropReply(func(request []byte) bool { return strings.Contains(string(request), text) })
}

// AwaitRequest returns when the next request comes.
func (w Way) AwaitRequest() {
	for n := w.Requests(); w.Requests() == n; time.Sleep(time.Millisecond) {
	}
}

// Check ends the program if there is an error.
func Check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
