package memory

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
)

func TestExamine(t *testing.T) {
	b := NewBackend(Options{})
	found, err := b.Examine(t.Context(), time.Second)
	require.NoError(t, err)
	require.Len(t, found.Notices, 1)
	require.Equal(t, "one-process", found.Notices[0].ID)
	b.Fail(driver.ErrUnavailable)
	_, err = b.Examine(t.Context(), time.Second)
	require.ErrorIs(t, err, driver.ErrUnavailable)
}
