package etcd

import (
	"context"
	"flag"
	"os"
	"testing"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/driver"
)

// openBackend opens a backend as Open does, without looking at the server.
func openBackend(_ context.Context, rawURL string) (driver.Backend, error) {
	b, _, err := lockport.DefaultMux().OpenBackend(rawURL)
	return b, err
}

func TestMain(m *testing.M) {
	conformance.WorkerMain(openBackend)
	flag.Parse()
	if err := flag.Set("test.parallel", "4"); err != nil { // they mostly wait
		panic(err)
	}
	os.Exit(m.Run())
}
