package mysql

import (
	"testing"

	gomysql "github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"
)

// said puts packets together as the server sends them.
func said(packets ...string) []byte {
	var all []byte
	for i, p := range packets {
		all = append(all, byte(len(p)), 0, 0, byte(i+1))
		all = append(all, p...)
	}
	return all
}

const (
	column  = "\x03def\x00\x00\x00\x01a\x00\x0c\x3f\x00\x0b\x00\x00\x00\x08\x81\x00\x00\x00\x00"
	theEnd  = "\xfe\x00\x00\x02\x00\x00\x00"
	failure = "\xff\x48\x04#HY000no"
)

func TestReply(t *testing.T) {
	oops := &gomysql.MySQLError{Number: 1096, SQLState: [5]byte{'H', 'Y', '0', '0', '0'}, Message: "no"}
	for name, c := range map[string]struct {
		packets []string
		columns int
		ends    bool
		want    reply
	}{
		"ping":                   {[]string{"\x00\x00\x00\x02\x00\x00\x00"}, 0, false, reply{}},
		"one":                    {[]string{"\x01", column, "\x011", theEnd}, 1, false, reply{ones: []bool{true}}},
		"cached metadata":        {[]string{"\x01\x01", column, "\x011", theEnd}, 1, false, reply{ones: []bool{true}}},
		"many":                   {[]string{"\x04", column, column, column, column, "\x010\xfb\x011\x0211", theEnd}, 4, false, reply{ones: []bool{false, false, true, false}}},
		"with the end of a list": {[]string{"\x01", column, "\xfe\x00\x00\x02\x00", "\xfb", "\xfe\x00\x00\x02\x00"}, 1, true, reply{ones: []bool{false}}},
		"failed at once":         {[]string{failure}, 1, false, reply{failed: oops}},
		"failed ping":            {[]string{failure}, 0, false, reply{failed: oops}},
		"failed in the row":      {[]string{"\x01", column, failure}, 1, false, reply{failed: oops}},
		"failed after the row":   {[]string{"\x01", column, "\x011", failure}, 1, false, reply{failed: oops, ones: []bool{true}}},
	} {
		t.Run(name, func(t *testing.T) {
			whole := said(c.packets...)
			r := reply{ones: make([]bool, 0, 4), failed: oops} // as an earlier one left it
			for n := range whole {
				complete, err := r.read(whole[:n], c.columns, c.ends)
				require.NoError(t, err)
				require.False(t, complete, "%d of %d bytes", n, len(whole))
			}
			complete, err := r.read(whole, c.columns, c.ends)
			require.NoError(t, err)
			require.True(t, complete)
			require.ElementsMatch(t, c.want.ones, r.ones)
			require.Equal(t, c.want.failed, r.failed)
			_, err = r.read(append(whole, 1), c.columns, c.ends)
			require.ErrorIs(t, err, errNoReply, "nothing comes unasked")
		})
	}
}

func TestReplyThatIsNone(t *testing.T) {
	for name, c := range map[string]struct {
		buf     []byte
		columns int
	}{
		"another number":    {[]byte("\x01\x00\x00\x02\x01"), 1},
		"an empty packet":   {[]byte("\x00\x00\x00\x01"), 1},
		"a huge packet":     {[]byte("\xff\xff\xff\x01"), 1},
		"other columns":     {said("\x02", column, column, "\x011\x011", theEnd), 1},
		"no row":            {said("\x01", column, theEnd, theEnd), 1},
		"a short row":       {said("\x02", column, column, "\x011", theEnd), 2},
		"a long row":        {said("\x01", column, "\x011\x011", theEnd), 1},
		"a short value":     {said("\x01", column, "\x051", theEnd), 1},
		"two rows":          {said("\x01", column, "\x011", "\x011", theEnd), 1},
		"OK for a row":      {said("\x00\x00\x00\x02\x00\x00\x00"), 1},
		"a row for a ping":  {said("\x01", column, "\x011", theEnd), 0},
		"a question of its": {said("\xfbfile"), 1},
		"a short error":     {said("\xff\x01"), 1},
	} {
		var r reply
		complete, err := r.read(c.buf, c.columns, false)
		require.ErrorIs(t, err, errNoReply, name)
		require.False(t, complete, name)
	}
}

func FuzzReply(f *testing.F) {
	f.Add(said("\x01", column, "\x011", theEnd), 1, true)
	f.Add(said(failure), 0, false)
	f.Fuzz(func(t *testing.T, buf []byte, columns int, ends bool) {
		columns &= 0x7f
		var r reply
		if complete, err := r.read(buf, columns, ends); complete {
			require.NoError(t, err)
			require.True(t, r.failed != nil || len(r.ones) == columns)
		}
	})
}
