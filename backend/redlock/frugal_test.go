package redlock

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// A held lock keeps a claim, and a seat for each node.
func TestClaimsAndSeatsAreSmall(t *testing.T) {
	require.LessOrEqual(t, unsafe.Sizeof(claim{}), uintptr(320))
	require.LessOrEqual(t, unsafe.Sizeof(seat{}), uintptr(64))
}
