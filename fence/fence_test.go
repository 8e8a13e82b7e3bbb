package fence_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/fence"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/pages"
)

func TestCheck(t *testing.T) {
	require.NoError(t, fence.Check("n", 7, 0))
	require.NoError(t, fence.Check("n", 7, 6))
	require.NoError(t, fence.Check("n", 7, 7), "a holder may return")
	require.ErrorIs(t, fence.Check("n", 0, 0), fence.ErrNoToken)
	require.NotErrorIs(t, fence.Check("n", 0, 5), fence.ErrStale)

	err := fence.Check("orders", 7, 8)
	require.ErrorIs(t, err, fence.ErrStale)
	require.NotErrorIs(t, err, fence.ErrNoToken)
	var stale *fence.StaleError
	require.ErrorAs(t, err, &stale)
	require.Equal(t, fence.StaleError{Name: "orders", Token: 7, Seen: 8}, *stale)
	require.EqualError(t, err, `fencing token 7 of "orders" is stale: a newer holder registered 8; nothing was written, stop`)
	require.EqualError(t, &fence.StaleError{Token: 7, Seen: 8}, `fencing token 7 is stale: a newer holder registered 8; nothing was written, stop`)

	long := fence.Check(strings.Repeat("ä\n", 500), 7, 8).Error()
	require.NotContains(t, long, "\n")
	require.Less(t, len(long), 300)
}

func TestMemoryRefusesOlderTokens(t *testing.T) {
	var m fence.Memory
	ctx := t.Context()
	calls := 0
	write := func() error { calls++; return nil }

	require.NoError(t, m.Register(ctx, "n", 5))
	require.NoError(t, m.Register(ctx, "n", 5))
	require.NoError(t, m.Do(ctx, "n", 5, write))
	require.NoError(t, m.Do(ctx, "n", 6, write), "a write registers too")
	require.Equal(t, 2, calls)

	err := m.Do(ctx, "n", 5, write)
	require.ErrorIs(t, err, fence.ErrStale)
	require.ErrorContains(t, err, `token 5 of "n" is stale: a newer holder registered 6`)
	require.ErrorIs(t, m.Register(ctx, "n", 5), fence.ErrStale)
	require.ErrorIs(t, m.Do(ctx, "nobody", 0, write), fence.ErrNoToken)
	require.NotContains(t, fmt.Sprint(&m), "nobody", "a name without a token takes no memory")
	require.Equal(t, 2, calls, "a refused function is not called")

	require.NoError(t, m.Do(ctx, "other", 1, write), "names are independent")
	m.Forget("n")
	m.Forget("n")
	require.NoError(t, m.Register(ctx, "n", 1), "forgotten")

	mistake := errors.New("disk full")
	require.Equal(t, mistake, m.Do(ctx, "n", 7, func() error { return mistake }))
	require.ErrorIs(t, m.Register(ctx, "n", 6), fence.ErrStale, "a failed write registers too")
	require.Panics(t, func() { _ = m.Do(ctx, "n", 8, func() error { panic("oh") }) })
	require.NoError(t, m.Register(ctx, "n", 8), "a panic leaves nothing locked")
}

// A new holder's registration waits for a running write, so the new holder's reads see it.
func TestMemoryRegistersBehindAWriteUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m fence.Memory
		ctx := t.Context()
		value, goOn := 0, make(chan struct{})
		go func() { _ = m.Do(ctx, "n", 1, func() error { <-goOn; value = 1; return nil }) }()
		synctest.Wait()
		require.NoError(t, m.Do(ctx, "other", 1, func() error { return nil }), "other names do not wait")
		m.Forget("n") // in use: does nothing

		impatient := peer.Within(t, time.Second)
		for range 2 {
			require.ErrorIs(t, m.Register(impatient, "n", 3), context.DeadlineExceeded)
		}

		registered := make(chan error, 1)
		go func() { registered <- m.Register(ctx, "n", 2) }()
		synctest.Wait()
		require.Empty(t, registered, "registered during an older holder's write")
		close(goOn)
		require.NoError(t, <-registered)
		require.Equal(t, 1, value)
		require.ErrorIs(t, m.Register(ctx, "n", 1), fence.ErrStale)
	})
}

// docs/fencing.md shows the worker, its error and the Lua of this package word for word. Package house builds the page's Go; sqlfence's tests
// check its SQL.
func TestDocumentedCode(t *testing.T) {
	page := pages.Read(t, "fencing.md")
	for pattern, file := range map[string]string{
		"(?s)(type account struct.*?)```": "example_test.go",
		`(?m)^    (fence: fencing .*)$`:   "example_test.go",
		"(?s)```lua\n(.*?)```":            "redisfence/lua/guard.lua",
	} {
		found := regexp.MustCompile(pattern).FindStringSubmatch(page)
		require.NotNil(t, found, pattern)
		require.Contains(t, pages.Read(t, "../fence/"+file), found[1])
	}
}
