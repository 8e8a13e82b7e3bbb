package examine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
)

func TestParseVersion(t *testing.T) {
	for text, want := range map[string]Version{
		"7.0.15": {7, 0, 15}, "3.8.0-${mvnGitCommitId}": {3, 8, 0}, "15.18 (Debian 15.18-0+deb12u1)": {15, 18, 0}, "17beta1": {17, 0, 0},
		"3.4.23": {3, 4, 23}, "10.11.6-MariaDB-0+deb12u1": {10, 11, 6}, "8": {8, 0, 0}, "3.7.": {3, 7, 0}, "1.2.3.4": {1, 2, 3},
	} {
		got, ok := ParseVersion(text)
		require.True(t, ok, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "v3", "beta", "-1.0"} {
		_, ok := ParseVersion(text)
		require.False(t, ok, text)
	}
}

func TestDefects(t *testing.T) {
	known := []Defect{
		{From: Version{3, 4, 0}, Fixed: Version{3, 4, 9}, Text: "one", Link: "link1"},
		{From: Version{3, 4, 5}, Fixed: Version{3, 4, 7}, Text: "two", Link: "link2"},
	}
	for version, want := range map[string]string{
		"3.3.99": "", "3.4.0": "X 3.4.0 has known errors: one (link1).", "3.4.5": "X 3.4.5 has known errors: one; two (link1, link2).",
		"3.4.7": "X 3.4.7 has known errors: one (link1).", "3.4.9": "", "4.0": "", "": "",
	} {
		notices := Defects("", "X", version, known)
		if want == "" {
			require.Empty(t, notices, version)
			continue
		}
		require.Len(t, notices, 1, version)
		require.Equal(t, driver.Notice{ID: "version", Text: want,
			Remedy: "Upgrade to 3.4.9 or newer; where a distribution has put the corrections into an older version, its notes say so."}, notices[0])
	}
}

func TestEndOfLife(t *testing.T) {
	lines := []Maintained{{Version{14}, EndOf(2026, time.November)}, {Version{15}, EndOf(2027, time.November)}}
	for _, v := range []struct {
		version string
		now     time.Time
		ended   bool
	}{
		{"14.3", time.Date(2026, time.November, 30, 23, 0, 0, 0, time.UTC), false},
		{"14.3", time.Date(2026, time.December, 1, 0, 0, 0, 0, time.UTC), true},
		{"15.0", time.Date(2026, time.December, 1, 0, 0, 0, 0, time.UTC), false},
		{"15.0", time.Date(2028, time.January, 1, 0, 0, 0, 0, time.UTC), true},
		{"19beta1", time.Date(2027, time.January, 1, 0, 0, 0, 0, time.UTC), false},
		{"13.9", time.Date(2030, time.January, 1, 0, 0, 0, 0, time.UTC), false}, // not in the table
		{"?", time.Date(2030, time.January, 1, 0, 0, 0, 0, time.UTC), false},
	} {
		require.Equal(t, v.ended, len(EndOfLife("X", v.version, v.now, lines, "link")) == 1, "%s at %v", v.version, v.now)
	}
}

func TestClock(t *testing.T) {
	now := time.Now()
	for _, v := range []struct{ before, at, after, want time.Duration }{
		{0, 5, 10, 0}, {0, 0, 10, 0}, {0, 10, 10, 0}, {0, 12, 10, 2}, {0, -3, 10, -3},
	} {
		got := Offset(now.Add(v.before*time.Second), now.Add(v.at*time.Second).Round(0), now.Add(v.after*time.Second))
		require.Equal(t, v.want*time.Second, got)
	}
	require.Empty(t, Clock("", ClockTolerance-1, "x"))
	require.Empty(t, Clock("", 1-ClockTolerance, "x"))
	require.Contains(t, Clock("", ClockTolerance, "x")[0].Text, "1s ahead of")
	require.Contains(t, Clock("", -90*time.Second, "x")[0].Text, "1m30s behind")
}

func TestConnections(t *testing.T) {
	for _, v := range []struct {
		used, limit, need int
		few               bool
	}{{10, 100, 5, false}, {90, 100, 5, false}, {91, 100, 5, true}, {90, 100, 11, true}, {100, 100, 0, true}, {1, 0, 5, false}} {
		require.Equal(t, v.few, len(Connections("", v.used, v.limit, v.need)) == 1, "%+v", v)
	}
}

func TestInTheClear(t *testing.T) {
	require.Empty(t, InTheClear([]string{"127.0.0.1:1", "[::1]:2", "localhost:3", "/run/redis.sock", "127.0.0.7"}))
	got := InTheClear([]string{"127.0.0.1:1", "10.0.0.1:2379", "db.example.com:1"})
	require.Len(t, got, 1)
	require.Equal(t, "password-in-the-clear", got[0].ID)
	require.Contains(t, got[0].Text, "(to 10.0.0.1:2379, db.example.com:1)")
}

func TestLatency(t *testing.T) {
	require.Empty(t, Latency(49*time.Millisecond, time.Second))
	require.Empty(t, Latency(time.Hour, 0), "no TTL")
	got := Latency(50*time.Millisecond, time.Second)
	require.Len(t, got, 1)
	require.Equal(t, "latency", got[0].ID)
	require.Equal(t, "Use a TTL of 2s or more, or a server that is nearer.", got[0].Remedy)
}

func TestStall(t *testing.T) {
	require.Empty(t, Stall("", "KEYS", 4999*time.Millisecond, 15*time.Second))
	require.Len(t, Stall("", "KEYS", 5*time.Second, 15*time.Second), 1)
}
