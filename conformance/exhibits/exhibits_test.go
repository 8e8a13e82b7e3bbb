package exhibits_test

import (
	"testing"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/conformance/exhibits"
)

// Every broken lock fails the cases in CaughtBy, with its reason. The conformance test of backend/memory shows that the sound lock
// passes the suite.
func TestExhibitsAreCaught(t *testing.T) {
	t.Parallel()
	var trials []exhibits.Trial
	for _, x := range exhibits.All() {
		trials = append(trials, exhibits.Trial{Kind: "exhibit", Name: x.Name, Is: x.Is, Config: x.Config(), Cases: x.CaughtBy, Want: conformance.Fail, Sees: x.Sees})
	}
	exhibits.Try(t, trials...)
}
