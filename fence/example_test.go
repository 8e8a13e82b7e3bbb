package fence_test

import (
	"context"
	"fmt"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/backend/memory"
	"github.com/lockport/lockport/fence"
)

// account is the resource. It checks tokens in one step with its work.
type account struct {
	fence   fence.Memory
	balance int
}

func (a *account) read(ctx context.Context, token lockport.Token) (balance int, err error) {
	err = a.fence.Do(ctx, "account-7", token, func() error {
		balance = a.balance
		return nil
	})
	return balance, err
}

func (a *account) write(ctx context.Context, token lockport.Token, balance int) error {
	return a.fence.Do(ctx, "account-7", token, func() error {
		a.balance = balance
		return nil
	})
}

// A worker is paused after it read. When it resumes, another worker holds the lock and has written, so the first one's write comes too late.
func Example() {
	ctx := context.Background()
	server := memory.NewServer()
	here, _ := memory.New(memory.Options{Server: server}, lockport.Logger(nil))
	defer here.Close()
	there, _ := memory.New(memory.Options{Server: server}, lockport.Logger(nil))
	defer there.Close()
	var a account

	paused, _ := here.Acquire(ctx, "account-7")
	old, _ := paused.Token()
	seen, _ := a.read(ctx, old)
	valid := paused.Valid() // true; then the worker is paused

	server.LoseSilently("account-7") // the lock expires, and its holder is not told

	lock, _ := there.Acquire(ctx, "account-7")
	token, _ := lock.Token()
	balance, _ := a.read(ctx, token) // registers the new token before it reads
	fmt.Println("the next worker:", a.write(ctx, token, balance+100))

	if valid { // it checked before it was paused
		fmt.Println("the paused worker:", a.write(ctx, old, seen-30))
	}
	fmt.Println("balance:", a.balance)
	// Output:
	// the next worker: <nil>
	// the paused worker: fence: fencing token 1024 of "account-7" is stale: a newer holder registered 2048; nothing was written, stop
	// balance: 100
}
