package play_test

import (
	"os"
	"testing"

	_ "github.com/lockport/lockport/backend/file" // what workers open
	"github.com/lockport/lockport/internal/lab/play"
)

func TestMain(m *testing.M) {
	play.WorkerMain()
	os.Exit(m.Run())
}
