package memory_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/backend/memory"
)

// Two clients of one server contend as two machines do.
func Example() {
	ctx := context.Background()
	server := memory.NewServer()
	here, _ := memory.New(memory.Options{Server: server})
	defer here.Close()
	there, _ := memory.New(memory.Options{Server: server})
	defer there.Close()

	lock, _ := here.Acquire(ctx, "nightly-report")
	_, err := there.TryAcquire(ctx, "nightly-report")
	fmt.Println(errors.Is(err, lockport.ErrHeld))

	_ = lock.Release(ctx)
	lock, err = there.TryAcquire(ctx, "nightly-report")
	fmt.Println(err)
	_ = lock.Release(ctx)
	// Output:
	// true
	// <nil>
}

// Test how a program handles the loss of its lock. Lose notifies it, as some servers do.
func ExampleServer_Lose() {
	ctx := context.Background()
	server := memory.NewServer()
	client, _ := memory.New(memory.Options{Server: server}, lockport.Logger(nil))
	defer client.Close()

	err := lockport.Do(ctx, client, "nightly-report", func(ctx context.Context, lock *lockport.Lock) error {
		server.Lose(lock.Name(), nil)
		<-ctx.Done() // the work must stop
		return nil
	})
	fmt.Println(errors.Is(err, lockport.ErrLost))
	// Output: true
}
