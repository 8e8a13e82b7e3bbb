package environment

import (
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// An operator takes a lock for somebody else, sees what is left, and removes it again, in every environment.
func TestOperators(t *testing.T) {
	for _, e := range slices.Concat(All(), forSuites()) {
		if e.Variant || e.Local { // a file must be there before somebody else can lock it
			continue
		}
		t.Run(e.Name, func(t *testing.T) {
			r := Need(t, e.Name)
			require.NoError(t, r.Heal(t.Context()))
			err := r.Overwrite(t.Context(), "a/b")
			if errors.Is(err, errors.ErrUnsupported) {
				t.Skip(err)
			}
			require.NoError(t, err)
			if left, err := r.Leftovers(t.Context(), "a/"); e.Backend != "postgres" && e.Backend != "mysql" { // by names that a client told
				require.NoError(t, err)
				require.Len(t, left, 1)
			}
			require.NoError(t, r.Remove(t.Context(), "a/b"))
			if err := r.Remove(t.Context(), "a/b"); err != nil {
				require.ErrorIs(t, err, ErrNotHeld)
			}
			require.NoError(t, r.Heal(t.Context()))
		})
	}
}

// What an environment does not have is an error, and no fault of another.
func TestWhatIsNotThere(t *testing.T) {
	r := Need(t, "file")
	path, err := r.Folder()
	require.NoError(t, err)
	require.DirExists(t, path)
	require.Empty(t, r.Nodes())
	_, err = r.Leader(t.Context())
	require.ErrorIs(t, err, errors.ErrUnsupported)
	require.ErrorContains(t, err, "a folder of one machine: nobody leads")
	require.ErrorIs(t, r.Lag(t.Context()), errors.ErrUnsupported)
	require.ErrorIs(t, r.FailOver(t.Context()), errors.ErrUnsupported)
	_, err = r.LoseDisk(t.Context(), 0)
	require.ErrorIs(t, err, errors.ErrUnsupported)
	_, err = (&Redis{}).Folder()
	require.ErrorIs(t, err, errors.ErrUnsupported)
	_, err = Named("none")
	require.ErrorContains(t, err, `no environment called "none"`)
}
