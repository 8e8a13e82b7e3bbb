package zkfence_test

import (
	"context"
	"errors"
	"log"

	"github.com/go-zookeeper/zk"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/fence"
	"github.com/lockport/lockport/fence/zkfence"
)

func Example() {
	var ctx context.Context
	var conn *zk.Conn
	var locks *lockport.Client // from zookeeper.Connect, on the same ensemble
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
