package zookeeper

import (
	"encoding/binary"
	"testing"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/internal/lab/environment"
)

func TestConformance(t *testing.T) {
	conformance.Test(t, environment.Need(t, "zookeeper-suite").Config(t, openURL, isOp))
}

func TestConformanceEnsemble(t *testing.T) {
	conformance.Test(t, environment.Need(t, "zookeeper").Unproxied(openURL), environment.Breakable())
}

// isOp tells requests apart by their operation. Several may have been written together.
func isOp(op conformance.Op, p []byte) bool {
	if op == conformance.OpAny {
		return true
	}
	wanted := map[conformance.Op]int32{conformance.OpAcquire: opCreate, conformance.OpRenew: opMulti, conformance.OpRelease: opDelete}[op]
	for len(p) >= 12 {
		n := int(binary.BigEndian.Uint32(p)) + 4
		if int32(binary.BigEndian.Uint32(p[8:])) == wanted {
			return true
		}
		if n > len(p) {
			break
		}
		p = p[n:]
	}
	return false
}
