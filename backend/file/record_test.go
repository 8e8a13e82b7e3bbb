package file

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
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
		for i := range want { // one wrong byte anywhere is found
			bad := bytes.Clone(slot)
			bad[i] ^= 1
			_, ok := decode(bad)
			require.False(t, ok, "byte %d", i)
		}
		r.held = false
	}
}

// The longest owner fits into a slot.
func TestLongestRecord(t *testing.T) {
	r := record{held: true, token: driver.MaxToken, since: time.UnixMicro(1<<62 - 1), owner: string(bytes.Repeat([]byte("~"), driver.MaxOwnerLength))}
	require.Len(t, r.encode(), slotSize)
	got, ok := decode(r.encode())
	require.True(t, ok)
	require.Equal(t, r, got)
}

func lockIn(t *testing.T, dir string) (uint64, error) {
	t.Helper()
	b, err := NewBackend(Options{Dir: dir})
	require.NoError(t, err)
	defer b.Close()
	lease, err := b.TryAcquire(t.Context(), driver.Request{Name: "x", Owner: goldenOwner, TTL: time.Second})
	if err != nil {
		return 0, err
	}
	require.NoError(t, lease.Release(t.Context()))
	return lease.Grant().Token, nil
}

func requireNext(t *testing.T, dir string, last uint64) uint64 {
	t.Helper()
	token, err := lockIn(t, dir)
	require.NoError(t, err)
	require.Greater(t, token, last)
	return token
}

// A write that is torn at any byte, as by a crash of the machine, never lowers the token, whatever the clock says.
func TestTornWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, FileName("x"))
	ahead := uint64(time.Now().Add(time.Hour).UnixMicro()) // as after the clock was set back: it cannot help
	for cut := 0; cut <= slotSize; cut += 37 {
		for at := range 2 {
			f, err := os.Create(path)
			require.NoError(t, err)
			old := record{token: ahead, since: goldenTime, owner: goldenOwner}
			_, err = writeRecord(f, old, at) // into the other slot
			require.NoError(t, err)
			next := record{held: true, token: ahead + 1, since: goldenTime, owner: goldenOwner}
			_, err = f.WriteAt(next.encode()[:cut], int64(at)*slotSize)
			require.NoError(t, err)
			require.NoError(t, f.Close())
			requireNext(t, dir, ahead)
		}
	}
}

// Between the record of a holder and that of its release, the later one counts, wherever they stand.
func TestLaterRecordCounts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	f, err := os.Create(path)
	require.NoError(t, err)
	defer f.Close()
	at := -1
	for i := range uint64(5) {
		for _, held := range []bool{true, false} {
			r := record{held: held, token: 10 + i, since: goldenTime, owner: goldenOwner}
			at, err = writeRecord(f, r, at)
			require.NoError(t, err)
			got, slot, err := readRecord(f)
			require.NoError(t, err)
			require.Equal(t, r, got)
			require.Equal(t, at, slot)
		}
	}
}

func TestTokenSurvives(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, FileName("x"))
	last := requireNext(t, dir, uint64(time.Now().UnixMicro()))
	last = requireNext(t, dir, last)

	// Damaged, emptied or removed: the clock is ahead of every token.
	require.NoError(t, os.WriteFile(path, bytes.Repeat([]byte("?"), 3000), 0o600))
	last = requireNext(t, dir, last)
	require.NoError(t, os.Truncate(path, 0))
	last = requireNext(t, dir, last)
	require.NoError(t, os.Truncate(path, 700))
	last = requireNext(t, dir, last)
	require.NoError(t, os.Remove(path))
	last = requireNext(t, dir, last)

	// The clock was set back: the file is ahead of it.
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	last += uint64(time.Hour.Microseconds())
	_, err = writeRecord(f, record{token: last, since: goldenTime, owner: goldenOwner}, 0)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	next := requireNext(t, dir, last)
	require.Equal(t, last+1, next)

	// Both: refused, since nothing is left to tell what was given.
	require.NoError(t, os.Truncate(path, 0))
	require.NoError(t, os.Chtimes(path, time.Time{}, time.Now().Add(time.Hour)))
	_, err = lockIn(t, dir)
	require.ErrorIs(t, err, driver.ErrRefused)
	require.ErrorContains(t, err, "clock was set back")
}

func TestGreatestToken(t *testing.T) {
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, FileName("x")))
	require.NoError(t, err)
	defer f.Close()
	_, err = writeRecord(f, record{token: driver.MaxToken, since: goldenTime, owner: goldenOwner}, 0)
	require.NoError(t, err)
	_, err = lockIn(t, dir)
	require.ErrorIs(t, err, driver.ErrRefused)
}

func TestName(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	require.NoError(t, err)
	defer f.Close()
	longest := string(bytes.Repeat([]byte{0}, driver.MaxNameLength)) // four letters each
	for _, name := range []string{"x", "jobs/\"é\"\n", longest} {
		require.NoError(t, f.Truncate(0))
		_, err := f.WriteAt([]byte(nameLine(name)), headerSize)
		require.NoError(t, err)
		got, ok := readName(f, FileName(name))
		require.True(t, ok)
		require.Equal(t, name, got)
		_, ok = readName(f, FileName("other"))
		require.False(t, ok)
	}
}
