package conformance_test

import (
	"context"
	"fmt"

	"github.com/lockport/lockport/backend/memory"
	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/driver"
)

// The suite also runs outside go test, such as in a command.
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
