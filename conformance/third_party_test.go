package conformance_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/lockport/lockport/backend/memory"
	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/driver"
)

// This is all that somebody else's driver needs. A real one, whose locks other processes can reach, leaves Local out and calls
// conformance.WorkerMain(open) first in TestMain.
func TestThirdParty(t *testing.T) {
	server := memory.NewServer()
	observer := memory.NewBackend(memory.Options{Server: server})
	conformance.Test(t, conformance.Config{
		Open: func(context.Context, string) (driver.Backend, error) {
			return memory.NewBackend(memory.Options{Server: server}), nil
		},
		Local:  true,
		MinTTL: 500 * time.Millisecond,
		Faults: conformance.Faults{ // as many as one can produce; each adds cases
			Remove: func(_ context.Context, name string) error { server.Lose(name, nil); return nil },
			Leftovers: func(ctx context.Context, prefix string) (left []string, err error) {
				all, err := observer.List(ctx, prefix)
				for _, st := range all {
					left = append(left, st.Name)
				}
				return left, err
			},
		},
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
