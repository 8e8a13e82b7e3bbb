package zookeeper

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/internal/lab/peer"
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
			ctx := peer.Within(t, 2*time.Minute)
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
					return exec.Command("sh", "-c", `n=$(cat "$0"); echo $((n + 1)) >"$0"`, file).Run()
				})
			}
			for range readers {
				each(func(context.Context, *lockport.Lock) error {
					before, err := os.ReadFile(file)
					<-time.After(2 * time.Millisecond)
					after, failed := os.ReadFile(file)
					assert.NotEmpty(t, before, "it was being written")
					assert.Equal(t, before, after, "it changed while a reader held the lock")
					return errors.Join(err, failed)
				}, lockport.Shared())
			}
			fleet.Wait()
			text := peer.Must(os.ReadFile(file))(t)
			require.Equal(t, strconv.Itoa((programs+clients)*additions), strings.TrimSpace(string(text)), "increments were lost")
		})
	}
}
