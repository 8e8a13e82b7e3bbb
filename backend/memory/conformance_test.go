package memory_test

import (
	"testing"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/conformance/exhibits"
)

// The whole suite, with the faults of memorytest between clients and server. The exhibits are made from this lock.
func TestConformance(t *testing.T) { conformance.Test(t, exhibits.Sound()) }
