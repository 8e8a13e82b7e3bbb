package servers

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestJarThatIsMissing(t *testing.T) {
	_, err := classpath("apt-get install it", "no-such-jar")
	var missing *NotInstalled
	require.ErrorAs(t, err, &missing)
	require.ErrorContains(t, err, "no-such-jar.jar not found: apt-get install it")
}

func TestCuratorCommandEndsWithItsContext(t *testing.T) {
	curator := NeedCurator(t)
	ctx, cancel := context.WithCancel(t.Context())
	cmd := curator.Command(ctx, "None.java")
	cancel()
	require.ErrorIs(t, cmd.Run(), context.Canceled, fmt.Sprint(cmd))
}
