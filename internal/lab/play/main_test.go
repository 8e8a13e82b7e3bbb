package play

import (
	"os"
	"testing"

	_ "github.com/lockport/lockport/backend/file" // workers open it
)

func TestMain(m *testing.M) {
	WorkerMain()
	os.Exit(m.Run())
}
