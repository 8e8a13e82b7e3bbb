package nats_test

import (
	"context"
	"log"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockport/lockport/backend/nats"
)

func ExampleNew() {
	ctx := context.Background()
	conn, err := natsgo.Connect("nats://localhost:4222", natsgo.MaxReconnects(-1), natsgo.PingInterval(2*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		log.Fatal(err)
	}
	if err := nats.CreateBucket(ctx, js, nats.Options{}, 3); err != nil { // once, when you set up NATS
		log.Fatal(err)
	}
	client, err := nats.New(js, nats.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	lock, err := client.Acquire(ctx, "nightly-report")
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Release(ctx)
	// Work, and stop when lock.Lost() is closed.
}
