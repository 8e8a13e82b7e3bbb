package zookeeper_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"log"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/backend/zookeeper"
)

func Example() {
	ctx := context.Background()
	client, err := zookeeper.Connect([]string{"zk-1:2181", "zk-2:2181", "zk-3:2181"}, zookeeper.Options{Chroot: "/locks"})
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

// With TLS, digest authentication, and a session of 30 s.
func ExampleOptions() {
	dialer := &tls.Dialer{Config: &tls.Config{ServerName: "zookeeper.example.org"}}
	client, err := zookeeper.Connect([]string{"zk-1:2281"}, zookeeper.Options{
		Chroot:   "/locks",
		TTL:      30 * time.Second,
		Username: "reports",
		Password: "from a vault",
		Dial:     dialer.DialContext,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
}

// The lock's own node, for people and other clients of the ensemble.
func ExampleNode() {
	var lock *lockport.Lock
	var node zookeeper.Node
	if lock.As(&node) {
		fmt.Println("held by", node.Path)
	}
}
