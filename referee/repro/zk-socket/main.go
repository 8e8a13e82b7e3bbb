// Command zk-socket shows that a client whose session expires leaves a socket open: go run ./repro/zk-socket localhost:2181
package main

import (
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockport/lockport/referee/repro/way"
)

var open sync.Map // the sockets that are not closed
type socket struct{ net.Conn }

func (s socket) Close() error { open.Delete(s); return s.Conn.Close() }

func dial(network, addr string, timeout time.Duration) (net.Conn, error) {
	c, err := net.DialTimeout(network, addr, timeout)
	open.Store(socket{c}, true)
	return socket{c}, err
}

func main() {
	through := way.To(os.Args[1])
	conn, events, err := zk.Connect([]string{through.Addr}, 2*time.Second, zk.WithLogInfo(false), zk.WithDialer(dial))
	way.Check(err)
	for (<-events).State != zk.StateHasSession {
	}
	through.Silence(true)
	time.AfterFunc(6*time.Second, func() { through.Silence(false) })
	for (<-events).State != zk.StateExpired {
	}
	conn.Close()
	time.Sleep(time.Second)
	open.Range(func(any, any) bool { fmt.Println("a socket is open a second after Close"); return true })
}
