package exhibits_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/conformance/exhibits"
)

// Every broken lock fails the cases in CaughtBy, with its reason. The conformance test of backend/memory shows that the sound lock
// passes the suite.
func TestExhibitsAreCaught(t *testing.T) {
	t.Parallel()
	isFull := make(map[string]bool)
	for _, c := range conformance.Cases() {
		isFull[c.ID()] = !c.Quick
	}
	var trials []exhibits.Trial
	for _, x := range exhibits.All() {
		trial := exhibits.Trial{Kind: "exhibit", Name: x.Name, Is: x.Is, Config: x.Config(), Want: conformance.Fail}
		require.Contains(t, []int{1, len(x.CaughtBy)}, len(x.Sees), x.Name)
		for i, id := range x.CaughtBy {
			if !testing.Short() || !isFull[id] {
				trial.Cases = append(trial.Cases, id)
				trial.Sees = append(trial.Sees, x.Sees[i%len(x.Sees)])
			}
		}
		if len(trial.Cases) > 0 {
			trials = append(trials, trial)
		}
	}
	exhibits.Try(t, trials...)
}
