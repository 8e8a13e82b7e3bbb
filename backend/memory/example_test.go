package memory_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/backend/memory"
	"github.com/lockport/lockport/driver"
)

// Two clients of one server contend as two machines do.
func Example() {
	ctx := context.Background()
	server := memory.NewServer()
	here, _ := memory.New(memory.Options{Server: server})
	defer here.Close()
	there, _ := memory.New(memory.Options{Server: server})
	defer there.Close()

	lock, err := here.Acquire(ctx, "nightly-report")
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = there.TryAcquire(ctx, "nightly-report")
	fmt.Println(errors.Is(err, lockport.ErrHeld))

	_ = lock.Release(ctx)
	lock, err = there.TryAcquire(ctx, "nightly-report")
	fmt.Println(err)
	_ = lock.Release(ctx)
	// Output:
	// true
	// <nil>
}

// What does a program do when its lock is taken away? Lose tells it, as a server does that can.
func ExampleServer_Lose() {
	ctx := context.Background()
	server := memory.NewServer()
	client, _ := memory.New(memory.Options{Server: server}, lockport.Logger(nil))
	defer client.Close()

	err := lockport.Do(ctx, client, "nightly-report", func(ctx context.Context, lock *lockport.Lock) error {
		server.Lose(lock.Name(), nil)
		<-ctx.Done() // the work is told to stop
		return nil
	})
	fmt.Println(errors.Is(err, lockport.ErrLost))
	// Output: true
}

// A loss of which nobody tells is noticed by the next renewal.
func ExampleServer_LoseSilently() {
	ctx := context.Background()
	server := memory.NewServer()
	client, _ := memory.New(memory.Options{Server: server}, lockport.Logger(nil), lockport.TTL(200*time.Millisecond))
	defer client.Close()

	lock, _ := client.Acquire(ctx, "nightly-report")
	server.LoseSilently("nightly-report")
	fmt.Println(lock.Valid())
	<-lock.Lost()
	fmt.Println(errors.Is(lock.Err(), lockport.ErrLost))
	// Output:
	// true
	// true
}

// The next call of a kind fails with the error of one's choice.
func ExampleFaults_FailNext() {
	ctx := context.Background()
	backend := memory.NewBackend(memory.Options{})
	client, _ := lockport.New(backend, lockport.Logger(nil))
	defer client.Close()

	backend.FailNext(memory.Claim, driver.ErrUnavailable)
	_, err := client.Acquire(ctx, "nightly-report")
	fmt.Println(err)
	_, err = client.Acquire(ctx, "nightly-report")
	fmt.Println(err)
	// Output:
	// lockport: acquire "nightly-report" (memory): lock server is unavailable
	// <nil>
}

// The next call of a kind takes longer.
func ExampleFaults_DelayNext() {
	backend := memory.NewBackend(memory.Options{})
	client, _ := lockport.New(backend, lockport.Logger(nil))
	defer client.Close()

	backend.DelayNext(memory.Claim, time.Minute)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	_, err := client.Acquire(ctx, "nightly-report")
	fmt.Println(errors.Is(err, context.DeadlineExceeded))
	// Output: true
}

// The server grants the lock, but the reply is lost on the way: the client undoes what it cannot know.
func ExampleFaults_LoseNextReply() {
	ctx := context.Background()
	backend := memory.NewBackend(memory.Options{})
	client, _ := lockport.New(backend, lockport.Logger(nil))
	defer client.Close()

	lost := backend.LoseNextReply(memory.Claim)
	lock, err := client.Acquire(ctx, "nightly-report")
	<-lost
	if err != nil {
		lock, err = client.Acquire(ctx, "nightly-report")
	}
	fmt.Println(lock.Valid(), err, backend.Calls(memory.Abandon))
	// Output: true <nil> 1
}

// A client that is cut off loses its locks when their TTL has passed, and knows it before anybody else can have them.
func ExampleFaults_Pause() {
	ctx := context.Background()
	server := memory.NewServer()
	backend := memory.NewBackend(memory.Options{Server: server})
	here, _ := lockport.New(backend, lockport.Logger(nil), lockport.TTL(200*time.Millisecond))
	defer here.Close()
	there, _ := memory.New(memory.Options{Server: server}, lockport.TTL(200*time.Millisecond))
	defer there.Close()

	mine, _ := here.Acquire(ctx, "nightly-report")
	backend.Pause()
	_, err := there.Acquire(ctx, "nightly-report")
	fmt.Println(err, mine.Valid(), errors.Is(mine.Err(), lockport.ErrSilence))
	backend.Resume()
	// Output: <nil> false true
}

// Faults that two clients share are those of the server.
func ExampleFaults_Fail() {
	ctx := context.Background()
	server, faults := memory.NewServer(), new(memory.Faults)
	here, _ := memory.New(memory.Options{Server: server, Faults: faults}, lockport.Logger(nil))
	defer here.Close()
	there, _ := memory.New(memory.Options{Server: server, Faults: faults}, lockport.Logger(nil))
	defer there.Close()

	faults.Fail(driver.ErrUnavailable)
	for _, client := range []*lockport.Client{here, there} {
		_, err := client.TryAcquire(ctx, "nightly-report")
		fmt.Println(errors.Is(err, lockport.ErrUnavailable))
	}
	faults.Fail(nil)
	_, err := here.TryAcquire(ctx, "nightly-report")
	fmt.Println(err)
	// Output:
	// true
	// true
	// <nil>
}
