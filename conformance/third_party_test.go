package conformance_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/backend/memory"
	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/driver"
)

// This is all that somebody else's driver needs, with every fault of the network. A real one leaves Local out, if other processes can reach its locks,
// and calls conformance.WorkerMain(open) first in TestMain.
func TestThirdParty(t *testing.T) {
	server, addr := newLockServer(t)
	words := map[conformance.Op]string{conformance.OpAcquire: "take", conformance.OpRenew: "keep", conformance.OpRelease: "drop"}
	lanes, end, err := faultproxy.Lanes(5, addr, func(op conformance.Op, request []byte) bool { return bytes.HasPrefix(request, []byte(words[op])) })
	require.NoError(t, err)
	t.Cleanup(end)
	for i := range lanes {
		lanes[i].Faults.Remove = server.remove // what only the server can do
	}
	conformance.Test(t, conformance.Config{
		Open:   openTCP,
		Target: lanes[0].Target,
		Direct: addr,
		Local:  true,
		Faults: lanes[0].Faults,
		Lanes:  lanes[1:], // without them the cases with faults run one by one
	})
}

// The suite runs outside go test too, say in a command.
func ExampleRun() {
	open := func(context.Context, string) (driver.Backend, error) { return memory.NewBackend(memory.Options{}), nil }
	report := conformance.Run(context.Background(), conformance.Config{Open: open, Local: true},
		conformance.Match(func(c conformance.Case) bool { return c.ID() == "exclusion/two-backends" }))
	for _, res := range report.Results {
		if res.Outcome == conformance.Fail {
			fmt.Println(res.Message()) // each of these backends has a server of its own
		}
	}
	// Output:
	// P1 exclusion: between the grant of a name and its release or loss nobody else holds it
	//     seen: another client has the name, yet another claim was granted (token 1)
}
