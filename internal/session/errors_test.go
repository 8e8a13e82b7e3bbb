package session

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
)

func TestErrorsHaveOneClass(t *testing.T) {
	classes := []error{driver.ErrHeld, driver.ErrLost, driver.ErrUnavailable, driver.ErrRefused, driver.ErrUnknown}
	for _, class := range classes {
		for _, cause := range append(classes, errCut, context.Canceled) {
			err := of(class, fmt.Errorf("so: %w", cause))
			for _, other := range classes {
				require.Equal(t, other == class, errors.Is(err, other), "%v", err)
			}
			require.Equal(t, cause == context.Canceled, errors.Is(err, context.Canceled))
		}
		require.Equal(t, driver.ErrLost, classOf(lost(class)))
	}
	require.ErrorIs(t, unsent(fmt.Errorf("%w: no", driver.ErrRefused)), driver.ErrRefused)
	require.ErrorIs(t, unsent(fmt.Errorf("%w: no", driver.ErrUnknown)), driver.ErrUnavailable)
}
