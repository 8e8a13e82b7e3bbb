package session

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
)

// Of what changes nothing no outcome is unknown, whoever made the error, and its cause stays in the chain.
func TestHarmless(t *testing.T) {
	require.NoError(t, Harmless(nil))
	refused := fmt.Errorf("%w: no", driver.ErrRefused)
	require.Equal(t, refused, Harmless(refused))
	for _, err := range []error{
		unknown(context.Canceled), unknown(driver.ErrRefused), driver.ErrUnknown, errors.Join(driver.ErrUnknown), errors.Join(errCut, driver.ErrUnknown),
		fmt.Errorf("%w", driver.ErrUnknown), fmt.Errorf("a: %w: %w: %w", driver.ErrUnknown, errCut, errCut),
	} {
		harmless := Harmless(err)
		require.ErrorIs(t, harmless, driver.ErrUnavailable)
		require.NotErrorIs(t, harmless, driver.ErrUnknown)
		require.Equal(t, errors.Is(err, context.Canceled), errors.Is(harmless, context.Canceled))
	}
}

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
