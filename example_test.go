package lockport_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/backend/memory"
)

// Most programs need no more than Do.
func ExampleDo() {
	locker, err := memory.New(memory.Options{}, lockport.TTL(15*time.Second)) // or redis.New, file.New, …
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locker.Close()

	err = lockport.Do(context.Background(), locker, "nightly-report", func(ctx context.Context, lock *lockport.Lock) error {
		// ctx ends when the lock is lost. Give the token to storage that a paused holder must not write to.
		_, fenced := lock.Token()
		fmt.Println("one of us at a time; fenced:", fenced)
		return ctx.Err()
	})
	fmt.Println(err)
	// Output:
	// one of us at a time; fenced: true
	// <nil>
}

func ExampleClient_TryAcquire() {
	locker, _ := memory.New(memory.Options{})
	defer locker.Close()

	lock, err := locker.TryAcquire(context.Background(), "nightly-report")
	fmt.Println(err)
	_, err = locker.TryAcquire(context.Background(), "nightly-report")
	fmt.Println(errors.Is(err, lockport.ErrHeld))
	fmt.Println(lock.Release(context.Background()))
	// Output:
	// <nil>
	// true
	// <nil>
}

// The context bounds the wait, never the hold.
func ExampleClient_Acquire() {
	locker, _ := memory.New(memory.Options{})
	defer locker.Close()
	lock, _ := locker.Acquire(context.Background(), "nightly-report")
	defer lock.Release(context.Background())

	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	_, err := locker.Acquire(ctx, "nightly-report")
	fmt.Println(errors.Is(err, context.DeadlineExceeded), errors.Is(err, lockport.ErrHeld))
	// Output: true true
}

// A lock can be lost. Err compares clocks at every call; Lost and Context notify a goroutine that waits for something else.
func ExampleLock_Err() {
	server := memory.NewServer()
	locker, _ := memory.New(memory.Options{Server: server})
	defer locker.Close()
	lock, _ := locker.Acquire(context.Background(), "nightly-report")

	server.Lose("nightly-report", nil) // as an operator might, or a fail-over
	<-lock.Lost()
	fmt.Println(lock.Valid(), errors.Is(lock.Err(), lockport.ErrLost))
	// Output: false true
}

// A service fails at construction if its backend does not promise what it requires.
func ExampleRequire() {
	_, err := memory.New(memory.Options{}, lockport.Require(lockport.NeedFailoverSafety))
	fmt.Println(err)
	// Output: lockport: new (memory): unsupported operation: locks that survive fail-over required, but the backend states "fail-over: no fail-over"
}

func ExampleOpen() {
	// Import the backend's package: import _ "github.com/lockport/lockport/backend/memory".
	locker, err := lockport.Open(context.Background(), "memory:example?ttl=30s")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locker.Close()
	fmt.Println(locker.Capabilities().Backend)
	// Output: memory
}

// Readers hold a name together, but never with a writer.
func ExampleShared() {
	ctx := context.Background()
	locker, _ := memory.New(memory.Options{})
	defer locker.Close()

	one, _ := locker.Acquire(ctx, "catalogue", lockport.Shared())
	two, err := locker.Acquire(ctx, "catalogue", lockport.Shared())
	fmt.Println(err)
	_, err = locker.TryAcquire(ctx, "catalogue") // to write
	fmt.Println(errors.Is(err, lockport.ErrHeld))
	fmt.Println(one.Release(ctx), two.Release(ctx))
	// Output:
	// <nil>
	// true
	// <nil> <nil>
}

// A partner's API takes two requests at a time, from all machines together.
func ExamplePermits() {
	ctx := context.Background()
	locker, _ := memory.New(memory.Options{})
	defer locker.Close()

	for range 3 {
		_, err := locker.TryAcquire(ctx, "partner-api", lockport.Permits(2))
		fmt.Println(errors.Is(err, lockport.ErrHeld))
	}
	// Output:
	// false
	// false
	// true
}

// A transfer needs both accounts. DoAll locks them in the same order everywhere, so transfers do not deadlock.
func ExampleDoAll() {
	locker, _ := memory.New(memory.Options{})
	defer locker.Close()

	err := lockport.DoAll(context.Background(), locker, []string{"account-7", "account-3"}, func(_ context.Context, set *lockport.Set) error {
		for _, lock := range set.Locks() {
			fmt.Println(lock.Name(), lock.Valid())
		}
		return nil
	})
	fmt.Println(err)
	// Output:
	// account-3 true
	// account-7 true
	// <nil>
}

// A function that locks calls another that locks the same name.
func ExampleReenter() {
	locker, _ := memory.New(memory.Options{})
	defer locker.Close()

	reindex := func(ctx context.Context) error {
		return lockport.Do(ctx, locker, "catalogue", func(context.Context, *lockport.Lock) error {
			fmt.Println("alone")
			return nil
		}, lockport.Reenter())
	}
	err := lockport.Do(context.Background(), locker, "catalogue", func(ctx context.Context, _ *lockport.Lock) error {
		return reindex(ctx) // without Reenter, its Acquire would wait forever
	})
	fmt.Println(err)
	// Output:
	// alone
	// <nil>
}

// One process begins the work, and another finishes it.
func ExampleLock_Detach() {
	ctx := context.Background()
	server := memory.NewServer()
	here, _ := memory.New(memory.Options{Server: server})
	defer here.Close()
	there, _ := memory.New(memory.Options{Server: server})
	defer there.Close()

	lock, _ := here.Acquire(ctx, "import")
	ticket, _ := lock.Detach(ctx) // a string; pass it on with the work within the TTL

	attached, err := there.Attach(ctx, ticket)
	fmt.Println(err)
	before, _ := lock.Token()
	after, _ := attached.Token()
	fmt.Println(before == after)
	// Output:
	// <nil>
	// true
}
