package zookeeper

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// Golden: other clients, and older versions, meet us at these nodes.
func TestNames(t *testing.T) {
	t.Parallel()
	for name, node := range map[string]string{
		"nightly-report": "nightly-report",
		"a_B-9":          "a_B-9",
		"a/b":            "a%2Fb",
		".":              "%2E",
		"..":             "%2E%2E",
		"100%":           "100%25",
		"é":              "%C3%A9",
		"日本":             "%E6%97%A5%E6%9C%AC",
		" ":              "%20",
		"\x00":           "%00",
		"zookeeper":      "zookeeper",
	} {
		require.Equal(t, node, encodeName(name))
		back, ok := decodeName(node)
		require.True(t, ok)
		require.Equal(t, name, back)
	}
	for _, node := range []string{"", "%", "%2", "%2f", "%41", "a.b", "é", "%zz"} {
		_, ok := decodeName(node)
		require.False(t, ok, node)
	}
}

func TestNodePrefix(t *testing.T) {
	t.Parallel()
	owner := "00112233445566778899aabbccddeeff:host/1/label/x"
	require.Equal(t, "_c_796e6fa4-34cf-8a0d-6aaf-f3a419e6d38e-lock-", nodePrefix(owner))
	require.NotEqual(t, nodePrefix(owner), nodePrefix(owner+"y"))
	require.Len(t, nodePrefix(owner), len("_c_")+36+len("-lock-"))
}

func TestOrder(t *testing.T) {
	t.Parallel()
	children := []string{
		"_c_f-lock-0000000010", "_c_a-lock-0000000011", "lock-0000000009", "zzz", "_c_b-lock-0000000008", "a-lock-x-lock-0000000001",
	}
	inOrder(children)
	require.Equal(t, []string{
		"a-lock-x-lock-0000000001", "_c_b-lock-0000000008", "lock-0000000009", "_c_f-lock-0000000010", "_c_a-lock-0000000011", "zzz",
	}, children)
}

func TestSequenceUsedUp(t *testing.T) {
	t.Parallel()
	for number, want := range map[string]bool{
		"0000000000": false, "2100000000": false, fmt.Sprint(lastSequence): false,
		fmt.Sprint(lastSequence + 1): true, fmt.Sprint(math.MaxInt32): true, "-000000001": true, "-2147483648": true, "9999999999": true,
	} {
		require.Equal(t, want, usedUp("_c_x-lock-"+number), number)
	}
}
