package notice

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
)

func TestListKeepsTheFirstOfEachID(t *testing.T) {
	var l List
	l.Add(driver.Notice{ID: "a", Text: "1"}, driver.Notice{ID: "b"}, driver.Notice{ID: "a", Text: "2"})
	l.Add(driver.Notice{ID: "b", Text: "3"})
	l.Add(driver.Notice{ID: "c", Unknown: true}, driver.Notice{ID: "c", Text: "4"}, driver.Notice{ID: "c", Unknown: true})
	require.Equal(t, List{{ID: "a", Text: "1"}, {ID: "b"}, {ID: "c", Text: "4"}}, l)
}

func TestClockOffset(t *testing.T) {
	now := time.Now()
	for _, v := range []struct{ at, after, want time.Duration }{{5, 10, 0}, {0, 10, 0}, {10, 10, 0}, {12, 10, 2}, {-3, 10, -3}} {
		got := ClockOffset(now, now.Add(v.at*time.Second).Round(0), now.Add(v.after*time.Second))
		require.Equal(t, v.want*time.Second, got)
	}
}

func TestConnections(t *testing.T) {
	for _, v := range []struct {
		used, limit, need int
		few               bool
	}{{10, 100, 5, false}, {90, 100, 5, false}, {91, 100, 5, true}, {90, 100, 11, true}, {100, 100, 0, true}, {1, 0, 5, false}} {
		require.Equal(t, v.few, len(Connections(v.used, v.limit, v.need)) == 1, "%+v", v)
	}
}

func TestInTheClear(t *testing.T) {
	require.Empty(t, InTheClear("127.0.0.1:1", "[::1]:2", "localhost:3", "/run/redis.sock", "127.0.0.7", ":6379"))
	got := InTheClear("127.0.0.1:1", "10.0.0.1:2379", "db.example.com:1")
	require.Len(t, got, 1)
	require.Equal(t, "password-in-the-clear", got[0].ID)
	require.Contains(t, got[0].Text, "(at 10.0.0.1:2379, db.example.com:1)")
}
