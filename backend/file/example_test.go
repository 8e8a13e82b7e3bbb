//go:build linux || darwin || freebsd

package file_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/backend/file"
)

// A job that runs on one machine at most once at a time.
func Example() {
	ctx := context.Background()
	dir, _ := os.MkdirTemp("", "locks") // a service has its own folder, such as /var/lib/myservice/locks
	defer os.RemoveAll(dir)

	client, _ := file.New(file.Options{Dir: dir})
	defer client.Close()

	lock, err := client.TryAcquire(ctx, "nightly-report")
	if errors.Is(err, lockport.ErrHeld) {
		fmt.Println("another process is at it")
		return
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("working")
	fmt.Println(lock.Release(ctx))
	// Output:
	// working
	// <nil>
}

// A child process that gets the locked file keeps the lock if this process dies.
func ExampleBackend() {
	ctx := context.Background()
	dir, _ := os.MkdirTemp("", "locks")
	defer os.RemoveAll(dir)
	client, _ := file.New(file.Options{Dir: dir})
	defer client.Close()

	lock, _ := client.Acquire(ctx, "nightly-report")
	defer lock.Release(ctx)
	var f *os.File
	fmt.Println(lock.As(&f))
	// cmd.ExtraFiles = []*os.File{f}
	// Output: true
}
