package repro

import (
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"
)

// zkExpired has a Lock whose session expired. It can be neither locked nor unlocked, while another has the lock.
func zkExpired(addr string) {
	lock := func(addr string) (*zk.Conn, *zk.Lock) {
		conn, _, err := zk.Connect([]string{addr}, 2*time.Second, zk.WithLogInfo(false))
		check(err)
		return conn, zk.NewLock(conn, "/expired", zk.WorldACL(zk.PermAll))
	}
	through := proxyTo(addr)
	conn, first := lock(through.Addr())
	_, second := lock(addr)
	check(first.Lock())
	through.Freeze()
	check(second.Lock())
	fmt.Println("second has the lock")
	through.Restore()
	for conn.State() != zk.StateHasSession {
		time.Sleep(10 * time.Millisecond)
	}
	fmt.Println("first's Unlock:", first.Unlock())
	fmt.Println("first's Unlock again:", first.Unlock())
	fmt.Println("first's Lock:", first.Lock())
}
