package zookeeper

import (
	"flag"
	"os"
	"testing"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/internal/lab/peer"
)

func TestMain(m *testing.M) {
	conformance.WorkerMain(peer.Open)
	flag.Parse()
	if err := flag.Set("test.parallel", "4"); err != nil { // they mostly wait
		panic(err)
	}
	os.Exit(m.Run())
}
