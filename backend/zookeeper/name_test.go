package zookeeper

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
)

// Golden: other clients and older versions use the same nodes.
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

// A claim with another number of permits does not make the others fail.
func TestOtherNumberOfPermits(t *testing.T) {
	t.Parallel()
	var all []string
	for i, n := range []int{5, 3, 5} {
		all = append(all, fmt.Sprintf("%s%010d", nodePrefix(driver.Request{Owner: "00112233445566778899aabbccddeeff:h", Permits: n}, false), i))
	}
	c := &claim{parent: "/x", req: driver.Request{Permits: 5}}
	ahead, err := c.waitsFor(all, 2)
	require.NoError(t, err)
	require.Equal(t, "/x/"+all[1], ahead)
	c.req.Permits = 3
	_, err = c.waitsFor(all, 1)
	require.ErrorIs(t, err, driver.ErrInvalidOption)
}

func TestNodePrefix(t *testing.T) {
	t.Parallel()
	owner := "00112233445566778899aabbccddeeff:host/1/label/x"
	for req, want := range map[*driver.Request][2]string{ // without and with ReadWriteLock
		{Owner: owner}:               {"lock-", "__WRIT__"},
		{Owner: owner, Shared: true}: {"read-lock-", "__READ__"},
		{Owner: owner, Permits: 8}:   {"8of-lock-", "8of-lock-"},
	} {
		for i, prefix := range want {
			prefix = "_c_796e6fa4-34cf-8a0d-6aaf-f3a419e6d38e-" + prefix
			require.Equal(t, prefix, nodePrefix(*req, i == 1))
			require.Equal(t, modeOf(*req), modeOfNode(prefix+"0000000007"))
			require.Equal(t, "0000000007", sortKey(prefix+"0000000007"))
			require.Equal(t, req.Permits, permitsOf(modeOf(*req)))
		}
	}
	require.NotEqual(t, ownerPrefix(owner), ownerPrefix(owner+"y"))
	require.Equal(t, "a%2Fb", parentName(driver.Request{Name: "a/b", Shared: true}))
	require.Equal(t, "a%2Fb.permits", parentName(driver.Request{Name: "a/b", Permits: 8}))
	for _, foreign := range []string{"lock-0000000001", "_c_f-lock-0000000010", "zzz", "read-lock-0000000001", "x-796e6fa4-34cf-8a0d-6aaf-f3a419e6d38e-read-lock-0000000001"} {
		require.Empty(t, modeOfNode(foreign))
	}
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
		require.Equal(t, want, exhausted("_c_x-lock-"+number), number)
	}
}
