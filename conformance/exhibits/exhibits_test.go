package exhibits_test

import (
	"slices"
	"testing"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/conformance/exhibits"
)

// Every broken lock fails the cases in CaughtBy, with its reason. The conformance test of backend/memory/memorytest shows that the
// sound lock passes the suite.
func TestExhibitsAreCaught(t *testing.T) {
	t.Parallel()
	isFull := make(map[string]bool)
	for _, c := range conformance.Cases() {
		isFull[c.ID()] = !c.Quick
	}
	var trials []exhibits.Trial
	for _, x := range exhibits.All() {
		ids := slices.Clone(x.CaughtBy)
		if testing.Short() {
			if ids = slices.DeleteFunc(ids, func(id string) bool { return isFull[id] }); len(ids) == 0 {
				continue
			}
		}
		trials = append(trials, exhibits.Trial{Kind: "exhibit", Name: x.Name, Is: x.Is, Config: x.Config(), Cases: ids, Want: conformance.Fail, Sees: []string{x.Sees}})
	}
	exhibits.Try(t, trials...)
}
