package play

import (
	"os"
	"testing"

	_ "github.com/lockport/lockport/backend/file" // what workers open
)

func TestMain(m *testing.M) {
	WorkerMain()
	os.Exit(m.Run())
}
