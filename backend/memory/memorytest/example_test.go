package memorytest_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/backend/memory"
	"github.com/lockport/lockport/backend/memory/memorytest"
	"github.com/lockport/lockport/driver"
)

// The next call of a kind fails with an error of your choice.
func ExampleFaults_FailNext() {
	ctx := context.Background()
	backend := memorytest.NewBackend(nil, nil)
	client, _ := lockport.New(backend, lockport.Logger(nil))
	defer client.Close()

	backend.FailNext(memorytest.Claim, driver.ErrUnavailable)
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
	backend := memorytest.NewBackend(nil, nil)
	client, _ := lockport.New(backend, lockport.Logger(nil))
	defer client.Close()

	backend.DelayNext(memorytest.Claim, time.Minute)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	_, err := client.Acquire(ctx, "nightly-report")
	fmt.Println(errors.Is(err, context.DeadlineExceeded))
	// Output: true
}

// The server grants the lock, but the reply is lost: the client undoes the unknown grant.
func ExampleFaults_LoseNextReply() {
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

// A client that is cut off loses its locks after their TTL, and knows before anybody else can acquire them.
func ExampleFaults_Pause() {
	ctx := context.Background()
	server := memory.NewServer()
	backend := memorytest.NewBackend(server, nil)
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

// Faults shared by two clients are like the server's own.
func ExampleFaults_Fail() {
	ctx := context.Background()
	server, faults := memory.NewServer(), new(memorytest.Faults)
	here, _ := lockport.New(memorytest.NewBackend(server, faults), lockport.Logger(nil))
	defer here.Close()
	there, _ := lockport.New(memorytest.NewBackend(server, faults), lockport.Logger(nil))
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
