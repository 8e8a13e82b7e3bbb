package exhibits_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/conformance/exhibits"
)

// Every broken lock fails the cases in CaughtBy, with its reason. The conformance test of backend/memory shows that the sound lock
// passes the suite.
func TestExhibitsAreCaught(t *testing.T) {
	t.Parallel()
	var trials []exhibits.Trial
	for _, x := range exhibits.All() {
		require.NotContains(t, slices.Collect(maps.Values(x.CaughtBy)), "", x.Name)
		trials = append(trials, exhibits.Trial{Kind: "exhibit", Name: x.Name, Is: x.Is, Config: x.Config(), Cases: x.CaughtBy})
	}
	exhibits.Try(t, trials...)
}
