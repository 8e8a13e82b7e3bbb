package zookeeper

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/internal/lab/servers"
)

// Java programs on Curator's InterProcessMutex or InterProcessReadWriteLock, and lockport clients, increment one number non-atomically: two
// holders at once would lose an increment. Readers, lockport's and Curator's, never see it change.
func TestCounterWithCurator(t *testing.T) {
	t.Parallel()
	curator := servers.NeedCurator(t)
	s := servers.SharedZooKeeper(t)
	for lock, readWrite := range map[string]bool{"mutex": false, "readwrite": true} {
		t.Run(lock, func(t *testing.T) {
			t.Parallel()
			const programs, clients, readers, additions = 2, 3, 2, 60
			file := filepath.Join(t.TempDir(), "number")
			require.NoError(t, os.WriteFile(file, []byte("0"), 0o600))
			ctx := within(t, 2*time.Minute)
			var fleet sync.WaitGroup
			for range programs {
				fleet.Go(func() {
					out, err := curator(ctx, "testdata/CuratorCounter.java", s.Addr(), "/"+lock+"/counter", file, strconv.Itoa(additions), lock).CombinedOutput()
					assert.NoError(t, err, "%s", out)
				})
			}
			each := func(do func(context.Context, *lockport.Lock) error, opts ...lockport.AcquireOption) {
				c, _ := newClient(t, Options{Chroot: "/" + lock, TTL: 10 * time.Second, ReadWriteLock: readWrite}, s.Addr())
				fleet.Go(func() {
					for range additions {
						assert.NoError(t, lockport.Do(ctx, c, "counter", do, opts...))
					}
				})
			}
			for range clients {
				each(func(context.Context, *lockport.Lock) error {
					n, err := number(file)
					return errors.Join(err, os.WriteFile(file, []byte(strconv.Itoa(n+1)), 0o600))
				})
			}
			for range readers {
				each(func(context.Context, *lockport.Lock) error {
					before, err := number(file)
					<-time.After(2 * time.Millisecond)
					after, failed := number(file)
					assert.Equal(t, before, after, "it changed while a reader held the lock")
					return errors.Join(err, failed)
				}, lockport.Shared())
			}
			fleet.Wait()
			n, err := number(file)
			require.NoError(t, err)
			require.Equal(t, (programs+clients)*additions, n)
		})
	}
}

func number(file string) (int, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}
