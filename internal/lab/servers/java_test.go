package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestJarThatIsMissing(t *testing.T) {
	_, err := classpath("apt-get install it", "no-such-jar")
	var missing *NotInstalled
	require.ErrorAs(t, err, &missing)
	require.ErrorContains(t, err, "no-such-jar.jar not found: apt-get install it")
}

func TestCurator(t *testing.T) {
	t.Parallel()
	curator := NeedCurator(t)
	z := NeedZooKeeper(t, ZooKeeperOptions{})
	source := filepath.Join(t.TempDir(), "Touch.java")
	require.NoError(t, os.WriteFile(source, []byte(`
		import org.apache.curator.framework.*;
		import org.apache.curator.framework.recipes.locks.*;
		import org.apache.curator.retry.RetryOneTime;
		class Touch {
			public static void main(String[] args) throws Exception {
				try (CuratorFramework client = CuratorFrameworkFactory.newClient(args[0], new RetryOneTime(100))) {
					client.start();
					InterProcessMutex mutex = new InterProcessMutex(client, args[1]);
					mutex.acquire();
					mutex.release();
				}
				System.out.println("touched " + args[1]);
			}
		}`), 0o600))
	out, err := curator.Command(soon(t), source, z.Addr(), "/a/lock").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "touched /a/lock")

	// Curator's locks are container nodes, which the server removes when it looks for empty ones.
	conn := zkClient(t, z.Addr())
	require.NoError(t, poll(soon(t), func() error {
		if exists(t, conn, "/a") {
			return errors.New("/a is still there")
		}
		return nil
	}))
}

func TestCuratorCommandEndsWithItsContext(t *testing.T) {
	curator := NeedCurator(t)
	ctx, cancel := context.WithCancel(t.Context())
	cmd := curator.Command(ctx, "None.java")
	cancel()
	require.ErrorIs(t, cmd.Run(), context.Canceled, fmt.Sprint(cmd))
}
