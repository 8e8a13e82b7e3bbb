package environment

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// Methods that an environment does not support say so.
func TestUnsupported(t *testing.T) {
	r := Need(t, "file")
	require.Empty(t, r.Nodes())
	_, err := r.Leader(t.Context())
	require.ErrorIs(t, err, errors.ErrUnsupported)
	require.ErrorContains(t, err, "cannot name a leader")
	require.ErrorIs(t, r.Lag(t.Context()), errors.ErrUnsupported)
	require.ErrorIs(t, r.FailOver(t.Context()), errors.ErrUnsupported)
	_, err = r.LoseDisk(t.Context(), 0)
	require.ErrorIs(t, err, errors.ErrUnsupported)
	_, err = Named("none")
	require.ErrorContains(t, err, `no environment called "none"`)
}
