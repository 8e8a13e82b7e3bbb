package file

import (
	"testing"
	"time"
)

// NobodyOvertakes stops waiters from overtaking the next one, until the test ends.
func NobodyOvertakes(t *testing.T) {
	before := overtakeAfter
	t.Cleanup(func() { overtakeAfter = before })
	overtakeAfter = time.Hour
}
