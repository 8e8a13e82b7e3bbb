package leader_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/backend/memory"
	"github.com/lockport/lockport/leader"
)

// One process at a time compacts the log, until the program is asked to end.
func ExampleRun() {
	locker, _ := memory.New(memory.Options{}) // or redis.New, etcd.New, …
	defer locker.Close()                      // after Run has returned

	ctx, end := context.WithCancelCause(context.Background()) // or signal.NotifyContext
	err := leader.Run(ctx, locker, "log-compactor", func(ctx context.Context, term *lockport.Lock) error {
		token, _ := term.Token() // for the storage that the leader writes to
		fmt.Println("leading; fenced:", token > 0)
		for rounds := 0; ctx.Err() == nil; rounds++ { // ends when this process must stop leading
			if rounds == 3 {
				end(errors.New("asked to end"))
			}
			time.Sleep(time.Millisecond)
		}
		return nil
	})
	fmt.Println(err)
	// Output:
	// leading; fenced: true
	// asked to end
}

// A health check needs to know whether this process leads, and since when. If a leader does not stop in time, exit.
func ExampleObserve() {
	locker, _ := memory.New(memory.Options{})
	defer locker.Close()

	var since time.Time // guard it if others read it
	overdue := time.AfterFunc(time.Hour, func() { panic("the leader does not step down") })
	overdue.Stop()
	observe := func(c leader.Change) {
		fmt.Println(c.State)
		switch c.State {
		case leader.Leading:
			since = time.Now()
		case leader.Stopping:
			overdue.Reset(10 * time.Second)
		case leader.Idle:
			overdue.Stop()
		}
	}

	ctx, end := context.WithCancel(context.Background())
	_ = leader.Run(ctx, locker, "log-compactor", func(ctx context.Context, _ *lockport.Lock) error {
		end()
		<-ctx.Done()
		return nil
	}, leader.Grace(5*time.Second), leader.Observe(observe))
	fmt.Println(!since.IsZero())
	// Output:
	// campaigning
	// leading
	// stopping
	// idle
	// true
}

// A process that does not campaign can see who leads.
func ExampleWatch() {
	ctx := context.Background()
	server := memory.NewServer()
	candidate, _ := memory.New(memory.Options{Server: server}, lockport.Label("compactor-1"))
	defer candidate.Close()
	observer, _ := memory.New(memory.Options{Server: server})
	defer observer.Close()

	term, _ := candidate.Acquire(ctx, "log-compactor")
	for st, err := range leader.Watch(ctx, observer, "log-compactor", time.Millisecond) {
		switch {
		case err != nil:
			fmt.Println(err)
		case st.Held:
			fmt.Println(st.Label, "leads; since when is known:", !st.Since.IsZero())
			_ = term.Release(ctx)
		default:
			fmt.Println("nobody leads")
			return
		}
	}
	// Output:
	// compactor-1 leads; since when is known: true
	// nobody leads
}
