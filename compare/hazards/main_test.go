package hazards

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	WorkerMain()
	os.Exit(m.Run())
}
