package zookeeper

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/internal/lab/servers"
)

// A fleet of Java programs on Curator's InterProcessMutex, or InterProcessReadWriteLock, and of lockport clients adds to one number without any
// care: an overlap of two holders loses an addition. Readers, lockport's and Curator's, never see it change.
func TestCounterWithCurator(t *testing.T) {
	t.Parallel()
	for lock, readWrite := range map[string]bool{"mutex": false, "readwrite": true} {
		t.Run(lock, func(t *testing.T) {
			t.Parallel()
			countWithCurator(t, lock, readWrite)
		})
	}
}

func countWithCurator(t *testing.T, lock string, readWrite bool) {
	curator := servers.NeedCurator(t)
	s := servers.SharedZooKeeper(t)
	const programs, clients, readers, additions = 2, 3, 2, 60
	file := filepath.Join(t.TempDir(), "number")
	require.NoError(t, os.WriteFile(file, []byte("0"), 0o600))
	ctx := within(t, 2*time.Minute)
	var fleet sync.WaitGroup
	errs := make(chan error, programs+clients+readers)
	o := Options{Chroot: "/" + lock, TTL: 10 * time.Second, ReadWriteLock: readWrite}
	for range programs {
		fleet.Go(func() {
			out, err := curator(ctx, "testdata/CuratorCounter.java", s.Addr(), "/"+lock+"/counter", file, strconv.Itoa(additions), lock).CombinedOutput()
			if err != nil {
				err = fmt.Errorf("%w: %s", err, out)
			}
			errs <- err
		})
	}
	for i := range clients {
		c, _ := newClient(t, o, s.Addr())
		fleet.Go(func() { errs <- addWith(ctx, c, file, additions, i == 0) })
	}
	for range readers {
		c, _ := newClient(t, o, s.Addr())
		fleet.Go(func() { errs <- readWith(ctx, c, file, additions) })
	}
	fleet.Wait()
	for range programs + clients + readers {
		require.NoError(t, <-errs)
	}
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, strconv.Itoa((programs+clients)*additions), strings.TrimSpace(string(text)))
}

// addWith adds under the lock, by Acquire, or, where poll is set, by TryAcquire again and again.
func addWith(ctx context.Context, c *lockport.Client, file string, additions int, poll bool) error {
	for range additions {
		l, err := c.Acquire(ctx, "counter")
		if poll && err == nil {
			if err = l.Release(ctx); err == nil {
				for l, err = c.TryAcquire(ctx, "counter"); err != nil && ctx.Err() == nil; l, err = c.TryAcquire(ctx, "counter") {
					time.Sleep(time.Millisecond)
				}
			}
		}
		if err != nil {
			return err
		}
		if err := addOne(file); err != nil {
			return err
		}
		if err := l.Release(ctx); err != nil {
			return err
		}
	}
	return nil
}

// readWith reads twice under a reader's lock, again and again.
func readWith(ctx context.Context, c *lockport.Client, file string, times int) error {
	for range times {
		err := lockport.Do(ctx, c, "counter", func(context.Context, *lockport.Lock) error {
			before, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			time.Sleep(2 * time.Millisecond)
			after, err := os.ReadFile(file)
			if err == nil && (string(after) != string(before) || len(before) == 0) {
				err = fmt.Errorf("a reader saw %q, and then %q", before, after)
			}
			return err
		}, lockport.Shared())
		if err != nil {
			return err
		}
	}
	return nil
}

func addOne(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return err
	}
	return os.WriteFile(file, []byte(strconv.Itoa(n+1)), 0o600)
}
