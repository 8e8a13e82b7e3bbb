// Command zk-orphan shows a Lock that fails, and whose node keeps everybody else out: go run ./repro/zk-orphan localhost:2181
package main

import (
	"fmt"
	"os"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockport/lockport/referee/repro/way"
)

func main() {
	through := way.To(os.Args[1])
	first, second := connect(through.Addr), connect(os.Args[1])
	lock := zk.NewLock(first, "/orphan", zk.WorldACL(zk.PermAll))
	way.Check(lock.Lock())
	way.Check(lock.Unlock())
	through.Lose("\x00\x00\x00\x0c\x00\x00\x00\x07/orphan") // getChildren2, by which Lock looks for its predecessor
	fmt.Println("first's Lock:", lock.Lock())
	fmt.Println("first's Unlock:", lock.Unlock())
	granted := make(chan error)
	go func() { granted <- zk.NewLock(second, "/orphan", zk.WorldACL(zk.PermAll)).Lock() }()
	select {
	case err := <-granted:
		fmt.Println("second's Lock:", err)
	case <-time.After(6 * time.Second):
		fmt.Println("second's Lock waits, three session timeouts later")
	}
}

func connect(addr string) *zk.Conn {
	conn, _, err := zk.Connect([]string{addr}, 2*time.Second, zk.WithLogInfo(false))
	way.Check(err)
	return conn
}
