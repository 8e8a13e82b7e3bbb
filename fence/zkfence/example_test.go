package zkfence_test

import (
	"context"
	"errors"
	"log"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/backend/zookeeper"
	"github.com/lockport/lockport/fence"
	"github.com/lockport/lockport/fence/zkfence"
)

func Example() {
	ctx := context.Background()
	servers := []string{"zk-1:2181", "zk-2:2181", "zk-3:2181"}
	conn, _, err := zk.Connect(servers, 10*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	locks, err := zookeeper.Connect(servers, zookeeper.Options{Chroot: "/locks"})
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()
	config, err := zkfence.New(conn, "/fences/config", zkfence.Options{})
	if err != nil {
		log.Fatal(err)
	}

	err = lockport.Do(ctx, locks, "config", func(ctx context.Context, l *lockport.Lock) error {
		guard, err := config.RegisterLock(ctx, l) // before any read
		if err != nil {
			return err
		}
		servers, stat, err := conn.Get("/config/servers") // over the fence's connection
		if err != nil {
			return err
		}
		_, err = guard.Set(ctx, "/config/servers", append(servers, ",a"...), stat.Version)
		return err
	})
	if errors.Is(err, fence.ErrStale) {
		log.Print("a newer holder has the configuration: nothing was written")
	}
}
