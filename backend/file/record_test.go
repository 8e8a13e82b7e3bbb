package file

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
)

const (
	goldenOwner = "0123456789abcdef0123456789abcdef:host/42/job/00c0ffee"
	goldenHeld  = "lockport/1 held token=1763712000000001 since=1763712000000000 owner=" + goldenOwner + " crc=26b80c20"
	goldenFree  = "lockport/1 free token=1763712000000001 since=1763712000000000 owner=" + goldenOwner + " crc=4a56731c"
)

var goldenTime = time.UnixMicro(1763712000000000)

// The golden vectors of the documentation: changing one is a major version.
func TestRecord(t *testing.T) {
	r := record{held: true, token: 1763712000000001, since: goldenTime, owner: goldenOwner}
	for _, want := range []string{goldenHeld, goldenFree} {
		slot := r.encode()
		require.Len(t, slot, slotSize)
		require.Equal(t, want, string(bytes.TrimRight(slot, " \n")))
		require.Equal(t, byte('\n'), slot[slotSize-1])
		got, ok := decode(slot)
		require.True(t, ok)
		require.Equal(t, r, got)
		for i := range want { // any wrong byte is detected
			bad := bytes.Clone(slot)
			bad[i] ^= 1
			_, ok := decode(bad)
			require.False(t, ok, "byte %d", i)
		}
		r.held = false
	}
	longest := record{held: true, token: driver.MaxToken, since: time.UnixMicro(1<<62 - 1), owner: strings.Repeat("~", driver.MaxOwnerLength)}
	require.Len(t, longest.encode(), slotSize)
	got, ok := decode(longest.encode())
	require.True(t, ok)
	require.Equal(t, longest, got)
}

// The golden vectors of the documentation: changing one is a major version.
func TestFileName(t *testing.T) {
	for name, want := range map[string]string{
		"nightly-report":          "nightly-report-6743ba10a2b2c4879cf6af5c75140be7135b22597ac428e490673767b538d53e.lock",
		"jobs/Ünïcode #1":         "jobs__n_code__1-2b2c862046eed50594a07228610c66df37afa785b3da86dc6616857be4ca0eab.lock",
		".hidden":                 "_hidden-1692419006a88aab3372cf255367e2ccbc605066a5130dbeee69cb823d803eb5.lock",
		strings.Repeat("a", 1024): "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-2edc986847e209b4016e141a6dc8716d3207350f416969382d431539bf292e4a.lock",
	} {
		require.Equal(t, want, FileName(name))
	}
}

// Readers and permits follow the layout. The golden vectors of the documentation: changing one is a major version.
func TestFilesOfReadersAndPermits(t *testing.T) {
	const name, sum = "nightly-report", "nightly-report-6743ba10a2b2c4879cf6af5c75140be7135b22597ac428e490673767b538d53e"
	dir := t.TempDir()
	b := backend(t, dir)
	release(t, peer.Takes(t, b, reading(name)))
	lines := map[string]string{
		sum + ".lock": "\"nightly-report\"\n", sum + ".reader-1.lock": "\"nightly-report\"\n", sum + ".permits.lock": "\"nightly-report\" permits=8\n",
	}
	for i := range 8 {
		lines[fmt.Sprintf("%s.permit-%d.lock", sum, i+1)] = "\"nightly-report\"\n"
		peer.Takes(t, b, permitOf(name, 8))
	}
	b.pruning.Wait()
	require.Len(t, namesIn(t, dir), len(lines))
	for name, line := range lines {
		require.Equal(t, line, string(peer.Must(os.ReadFile(filepath.Join(dir, name)))(t)[headerSize:]), name)
	}
	lock := peer.Takes(t, b, request(name))
	all := peer.Lists(t, b, "")
	require.Equal(t, []any{1, lock.Grant().Token, 0}, []any{len(all), all[0].Token, len(all[0].Others)}, "the lock takes precedence, and is listed once")
}

// Concurrent claims of permits have distinct tokens, greater than those of all permits, former ones included, whatever the clock says.
func TestTokensOfPermits(t *testing.T) {
	const n = 4
	dir := t.TempDir()
	last := uint64(time.Now().Add(time.Hour).UnixMicro())
	backends := []*Backend{backend(t, dir)}
	release(t, peer.Takes(t, backends[0], permitOf("x", n+1)))
	put(t, filepath.Join(dir, numbered("x", permit, n+1)), record{token: last}) // which is no longer a permit
	release(t, peer.Takes(t, backends[0], permitOf("x", n)))
	for i := range n { // as if that claim, which changed the number, had not written its token yet
		require.NoError(t, os.RemoveAll(filepath.Join(dir, numbered("x", permit, i+1))))
	}
	for range n - 1 {
		backends = append(backends, backend(t, dir))
	}
	for round := range 30 {
		var claims sync.WaitGroup
		leases, errs := make([]driver.Lease, 1+round%n), make([]error, n)
		for i, b := range backends[:len(leases)] {
			claims.Go(func() { leases[i], errs[i] = b.TryAcquire(t.Context(), permitOf("x", n)) })
		}
		claims.Wait()
		tokens, greatest := map[uint64]bool{}, last
		for i, l := range leases {
			require.NoError(t, errs[i])
			token := l.Grant().Token
			require.Greater(t, token, last)
			require.Equal(t, numbered("x", permit, int(token%n)+1), filepath.Base(l.(*claim).own.Name()))
			tokens[token], greatest = true, max(greatest, token)
			release(t, l)
		}
		require.Len(t, tokens, len(leases))
		last = greatest
	}
}

// put creates the file at path with r as its only record.
func put(t *testing.T, path string, r record) {
	t.Helper()
	r.since, r.owner = goldenTime, goldenOwner
	f := peer.Must(os.Create(path))(t)
	defer f.Close()
	require.NoError(t, (&lockFile{File: f}).writeRecord(r))
}

func requireNext(t *testing.T, dir string, last uint64) uint64 {
	t.Helper()
	lease := peer.Takes(t, backend(t, dir), request("x"))
	release(t, lease)
	require.Greater(t, lease.Grant().Token, last)
	return lease.Grant().Token
}

// A write torn at any byte, as by a machine crash, never lowers the token, whatever the clock says. One that is complete raises it.
func TestTornWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, FileName("x"))
	ahead := uint64(time.Now().Add(time.Hour).UnixMicro()) // as if the clock was set back: it cannot help
	for cut := 0; cut <= slotSize; cut += 32 {
		for at := range 2 {
			f := peer.Must(os.Create(path))(t)
			old := record{token: ahead, since: goldenTime, owner: goldenOwner}
			require.NoError(t, (&lockFile{File: f, slot: at}).writeRecord(old)) // into the other slot
			next := record{held: true, token: ahead + 9, since: goldenTime, owner: goldenOwner}
			require.NoError(t, peer.ErrOf(f.WriteAt(next.encode()[:cut], int64(at)*slotSize)))
			require.NoError(t, f.Close())
			requireNext(t, dir, requireNext(t, dir, ahead+9*uint64(cut/slotSize)))
		}
	}
}

func TestTokenSurvives(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, FileName("x"))
	last := requireNext(t, dir, requireNext(t, dir, uint64(time.Now().UnixMicro())))

	// Damaged, emptied or removed: the clock is ahead of every token.
	for _, size := range []int{3000, 0, 700} {
		require.NoError(t, os.WriteFile(path, bytes.Repeat([]byte("?"), size), 0o600))
		last = requireNext(t, dir, last)
	}
	require.NoError(t, os.Remove(path))
	last = requireNext(t, dir, last)

	// The clock was set back: the file is ahead of it.
	last += uint64(time.Hour.Microseconds())
	put(t, path, record{token: last})
	require.NoError(t, os.Chtimes(path, time.Time{}, time.Now().Add(time.Hour)))
	require.Equal(t, last+2, requireNext(t, dir, last), "readers may have the token between")

	// Both: refused, since nothing tells which tokens were granted.
	require.NoError(t, os.WriteFile(path, bytes.Repeat([]byte("?"), 3000), 0o600))
	require.NoError(t, os.Chtimes(path, time.Time{}, time.Now().Add(time.Hour)))
	b := backend(t, dir)
	require.ErrorContains(t, peer.Fails(t, b, request("x"), driver.ErrRefused), "clock was set back")

	put(t, path, record{token: driver.MaxToken})
	peer.Fails(t, b, request("x"), driver.ErrRefused)
}

func TestName(t *testing.T) {
	dir := t.TempDir()
	write := func(file, line string) *lockFile {
		f := peer.Must(os.Create(filepath.Join(dir, file)))(t)
		t.Cleanup(func() { f.Close() })
		opened := &lockFile{File: f}
		require.NoError(t, opened.writeLine(line))
		return opened
	}
	for _, name := range []string{"x", "jobs/\"é\"\n", strings.Repeat("\x00", driver.MaxNameLength)} { // four characters each when quoted
		for _, permits := range []int{0, driver.MaxPermits} {
			file, line, other := FileName(name), nameLine(name), gateName(name)
			if permits > 0 {
				file, line, other = gateName(name), gateLine(name, permits), FileName(name)
			}
			got, n := write(file, line).readLine()
			require.Equal(t, []any{name, permits}, []any{got, n})
			for _, wrong := range []string{FileName("other"), other} {
				got, n = write(wrong, line).readLine()
				require.Equal(t, []any{"", 0}, []any{got, n})
			}
		}
	}
}
