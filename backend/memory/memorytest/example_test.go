package memorytest_test

import (
	"context"
	"fmt"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/backend/memory/memorytest"
)

// The server grants the lock, but the reply is lost: the client undoes the unknown grant.
func Example() {
	ctx := context.Background()
	backend := memorytest.NewBackend(nil, nil)
	client, _ := lockport.New(backend, lockport.Logger(nil))
	defer client.Close()

	lost := backend.LoseNextReply(memorytest.Claim)
	lock, err := client.Acquire(ctx, "nightly-report")
	<-lost
	if err != nil {
		lock, err = client.Acquire(ctx, "nightly-report")
	}
	fmt.Println(lock.Valid(), err, backend.Calls(memorytest.Abandon))
	// Output: true <nil> 1
}
