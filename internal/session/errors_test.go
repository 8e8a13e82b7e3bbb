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
		unknown(context.Canceled), unknown(driver.ErrRefused), driver.ErrUnknown, errors.Join(driver.ErrUnknown), errors.Join(errErr, driver.ErrUnknown),
		fmt.Errorf("%w", driver.ErrUnknown), fmt.Errorf("a: %w: %w: %w", driver.ErrUnknown, errErr, errErr),
	} {
		harmless := Harmless(err)
		require.ErrorIs(t, harmless, driver.ErrUnavailable)
		require.NotErrorIs(t, harmless, driver.ErrUnknown)
		require.Equal(t, errors.Is(err, context.Canceled), errors.Is(harmless, context.Canceled))
	}
}

var errErr = errors.New("an error")
