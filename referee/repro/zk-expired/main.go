// Command zk-expired shows that a Lock whose session expired can be neither locked nor unlocked, while another has the lock: go run ./repro/zk-expired localhost:2181
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
	conn, first := lock(through.Addr())
	_, second := lock(os.Args[1])
	way.Check(first.Lock())
	through.Freeze()
	way.Check(second.Lock())
	fmt.Println("second has the lock")
	through.Restore()
	for conn.State() != zk.StateHasSession {
		time.Sleep(10 * time.Millisecond)
	}
	fmt.Println("first's Unlock:", first.Unlock())
	fmt.Println("first's Unlock again:", first.Unlock())
	fmt.Println("first's Lock:", first.Lock())
}

func lock(addr string) (*zk.Conn, *zk.Lock) {
	conn, _, err := zk.Connect([]string{addr}, 2*time.Second, zk.WithLogInfo(false))
	way.Check(err)
	return conn, zk.NewLock(conn, "/expired", zk.WorldACL(zk.PermAll))
}
