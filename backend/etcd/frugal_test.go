package etcd

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// A held lock keeps a claim and its watch.
func TestClaimsAndWatchesAreSmall(t *testing.T) {
	require.LessOrEqual(t, unsafe.Sizeof(claim{}), uintptr(264))
	require.LessOrEqual(t, unsafe.Sizeof(watch{}), uintptr(80))
}
