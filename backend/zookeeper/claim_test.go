package zookeeper

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
)

// A claim that was abandoned is not granted any more, whatever was found out about it meanwhile.
func TestNothingAbandonedIsGranted(t *testing.T) {
	t.Parallel()
	tap, server := quietLife(time.Second)
	defer func() { _ = server.Close() }()
	c := &claim{b: tap.life.b, l: tap.life, path: "/x/y", czxid: 1}
	c.abandon()
	_, err := c.win(t.Context(), place{})
	require.ErrorIs(t, err, driver.ErrUnknown)
	require.False(t, c.isHeld())
}
