package memorytest_test

import (
	"testing"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/conformance/exhibits"
)

// The whole suite, with faults between the clients and their server. The exhibits are made of this lock.
func TestConformance(t *testing.T) { conformance.Test(t, exhibits.Sound()) }
