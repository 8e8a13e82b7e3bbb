package redlock

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// A held lock keeps a claim, and a vote for each node.
func TestClaimsAndVotesAreSmall(t *testing.T) {
	require.LessOrEqual(t, unsafe.Sizeof(claim{}), uintptr(320))
	require.LessOrEqual(t, unsafe.Sizeof(vote{}), uintptr(72))
}
