package history_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/internal/lab/history"
	historytext "github.com/lockport/lockport/internal/lab/history/text"
)

// Two holds of a name, and how the belief in the first one ends.
func TestOverlaps(t *testing.T) {
	second := func(got float64) string {
		return fmt.Sprintf("%v w2/1 asked\n %v w2/1 got token 2048 deadline %v\n %v w2/1 releasing\n", got-5, got, got+1900, got+100)
	}
	const first = "0 w1/1 asked\n 10 w1/1 got token 1024 deadline 1900\n"
	for _, c := range []struct {
		name, text string
		from, to   float64 // of the overlap; 0, 0: none
	}{
		{"while Release is under way", first + "500 w1/1 releasing\n 600 w1/1 released\n" + second(502), 0, 0},
		{"before Release was called", first + "500 w1/1 releasing\n 600 w1/1 released\n" + second(499), 499, 500},
		{"at the instant of the deadline", first + second(1900), 0, 0},
		{"before the deadline", first + second(1899), 1899, 1900},
		{"after the deadline was moved", first + "600 w1/1 extended deadline 2500\n" + second(1900), 1900, 2000},
		{"told in time", first + "600 w1/1 told: removed\n" + second(601), 0, 0},
		{"told too late", first + "600 w1/1 told: removed\n" + second(590), 590, 600},
		{"killed", first + "600 w1 killed\n" + second(601), 0, 0},
		{"stopped, and granted too early", first + "600 w1 stopped\n" + second(1500) + "2050 w1 continued\n 2051 w1/1 told: silence", 1500, 1600},
		{"another name", first + "600 w2/1 asked name m\n 601 w2/1 got name m\n", 0, 0},
		{"asked for first, and got last", "0 w1/1 asked\n 1 w2/1 asked\n 10 w2/1 got\n 20 w2/1 releasing\n 30 w1/1 got\n 40 w1/1 releasing\n", 0, 0},
		{"the same worker", first + "600 w1/2 asked\n 601 w1/2 got\n 700 w1/2 releasing", 601, 700},
		{"never released", "0 w1/1 asked\n 1 w1/1 got\n" + second(600), 600, 700},
	} {
		var want, got []string
		if c.to > 0 {
			want = append(want, fmt.Sprint("w1 ", historytext.At(c.from), historytext.At(c.to)))
		}
		for _, o := range read(t, c.text).Overlaps() {
			got = append(got, fmt.Sprint(o.First.Worker, " ", o.From, o.To))
		}
		require.Equal(t, want, got, c.name)
	}
}

// Readers may overlap, and so may permits up to their number. A writer overlaps nobody.
func TestOverlapsOfModes(t *testing.T) {
	hold := func(worker int, got, until float64, mode string) string {
		return fmt.Sprintf("%v w%d/1 asked %s\n %v w%d/1 got\n %v w%d/1 releasing\n", got-1, worker, mode, got, worker, until, worker)
	}
	for _, c := range []struct {
		name, text string
		want       []string // the pairs, First and Second
		beside     [2]int   // the readers that joined another, and the permits granted beside another
	}{
		{"readers", hold(1, 10, 90, "shared") + hold(2, 20, 80, "shared") + hold(3, 30, 95, "shared"), nil, [2]int{2, 0}},
		{"a writer after readers", hold(1, 10, 90, "shared") + hold(2, 20, 80, "shared") + hold(3, 91, 95, ""), nil, [2]int{1, 0}},
		{"a writer beside a reader", hold(1, 10, 90, "shared") + hold(2, 20, 80, "shared") + hold(3, 85, 95, ""), []string{"w1w3"}, [2]int{1, 0}},
		{"a reader beside a writer", hold(1, 10, 90, "") + hold(2, 20, 80, "shared"), []string{"w1w2"}, [2]int{1, 0}},
		{"two writers", hold(1, 10, 90, "") + hold(2, 20, 80, ""), []string{"w1w2"}, [2]int{}},
		{"as many as there are permits", hold(1, 10, 90, "permits 2") + hold(2, 20, 80, "permits 2") + hold(3, 80, 95, "permits 2"), nil, [2]int{0, 2}},
		{"one too many", hold(1, 10, 90, "permits 2") + hold(2, 20, 80, "permits 2") + hold(3, 79, 95, "permits 2"), []string{"w2w3"}, [2]int{0, 2}},
		{"of many", "0 w1/1 asked\n 1 w1/1 got deadline 100\n 1 w2/1 asked\n 2 w2/1 got deadline 20\n 2 w3/1 asked\n 3 w3/1 got deadline 50\n" +
			"30 w4/1 asked\n 31 w4/1 got deadline 60\n 200 - noted: the end", []string{"w1w2", "w1w3", "w2w3", "w1w4", "w3w4"}, [2]int{}},
	} {
		h := read(t, c.text)
		var pairs []string
		for _, o := range h.Overlaps() {
			pairs = append(pairs, o.First.Worker+o.Second.Worker)
		}
		require.Equal(t, c.want, pairs, c.name)
		readers, permits := h.Joins()
		require.Equal(t, c.beside, [2]int{readers, permits}, c.name)
	}
}

// grant is a hold of a worker in a mode, with the times at which it was asked for and got.
func grant(worker string, asked, got float64, token int) string {
	worker, mode, _ := strings.Cut(worker, " ")
	return fmt.Sprintf("%v %s asked %s\n %v %s got token %d\n %v %s releasing\n", asked, worker, mode, got, worker, token, got+1, worker)
}

func TestTokenFaults(t *testing.T) {
	kinds := map[bool]string{true: "equal", false: "falls"} // by TokenFault.Equal
	gaveUp := "0 w1/1 asked permits 2\n" + grant("w2/1 permits 2", 1, 2, 2048) + "3 w1/2 asked permits 2\n 4 w1/1 failed\n 5 w1/2 got token 1024\n"
	for _, c := range []struct {
		name, text string
		want       []string // the faults: kind and holds
	}{
		{"rising", grant("w1/1", 0, 1, 1024) + grant("w2/1", 2, 3, 2048) + grant("w1/2", 4, 5, 3072), nil},
		{"falling", grant("w1/1", 0, 1, 2048) + grant("w2/1", 2, 3, 1024), []string{"falls w1/1 w2/1"}},
		{"falling, after others", grant("w1/1", 0, 1, 9216) + grant("w2/1", 2, 3, 10240) + grant("w3/1", 4, 5, 9217), []string{"equal w1/1 w3/1"}},
		{"falling, in one worker", grant("w1/1", 0, 1, 2048) + grant("w1/2", 2, 3, 1024), []string{"falls w1/1 w1/2"}},
		{"asked for at one time: the order of grants is not known", grant("w1/1", 0, 1, 2048) + grant("w2/1", 0.5, 3, 1024), nil},
		{"asked for at the instant at which the other was got", grant("w1/1", 0, 1, 2048) + grant("w2/1", 1, 3, 1024), nil},
		{"equal", grant("w1/1", 0, 1, 1024) + grant("w2/1", 2, 3, 1024), []string{"equal w1/1 w2/1"}},
		{"equal, at one time", grant("w1/1", 0, 1, 1024) + grant("w2/1", 0.5, 3, 1024), []string{"equal w1/1 w2/1"}},
		{"equal, in one worker", grant("w1/1", 0, 1, 1024) + grant("w1/2", 0.5, 3, 1024), []string{"equal w1/1 w1/2"}},
		{"one claim of two workers", grant("w1/1", 0, 1, 1024) + grant("w2/1", 0.5, 3, 1025), []string{"equal w1/1 w2/1"}},
		{"handed on", grant("w1/1", 0, 1, 1024) + grant("w1/2", 0, 3, 1025) + grant("w1/3", 4, 5, 1026), nil},
		{"handed on, falling", grant("w1/1", 0, 1, 1024) + grant("w1/2", 0, 3, 1026) + grant("w1/3", 4, 5, 1025), []string{"falls w1/2 w1/3"}},
		{"handed on after another's claim had replaced it", grant("w1/1", 0, 1, 1024) + grant("w2/1", 2, 3, 2048) + grant("w1/2", 4, 5, 1025), nil},
		{"readers of one claim", grant("w1/1 shared", 0, 1, 1024) + grant("w1/2 shared", 2, 3, 1024) + grant("w2/1", 4, 5, 2048), nil},
		{"a reader joins an old claim", grant("w1/1 shared", 0, 1, 1024) + grant("w2/1 shared", 2, 3, 2048) + grant("w1/2 shared", 4, 5, 1024), nil},
		{"a writer falls behind a reader", grant("w1/1 shared", 0, 1, 2048) + grant("w2/1", 2, 3, 1024), []string{"falls w1/1 w2/1"}},
		{"a reader falls behind a writer", grant("w1/1", 0, 1, 2048) + grant("w2/1 shared", 2, 3, 1024), []string{"falls w1/1 w2/1"}},
		{"a writer has a reader's token", grant("w1/1 shared", 0, 1, 1024) + grant("w2/1", 2, 3, 1024), []string{"equal w1/1 w2/1"}},
		{"permits fall", "0 w2/2 asked name m permits 2\n 0 w3/1 asked permits 2\n" + grant("w1/1 permits 2", 0, 1, 2048) + grant("w2/1 permits 2", 2, 3, 1024), []string{"falls w1/1 w2/1"}},
		{"a permit twice", grant("w1/1 permits 2", 0, 1, 1024) + grant("w2/1 permits 2", 0.5, 3, 1024), []string{"equal w1/1 w2/1"}},
		{"a permit was granted to a call that gave up, and had by the next", gaveUp, nil},
		{"the next did not ask before the first gave up", strings.Replace(gaveUp, "3 w1/2", "4.5 w1/2", 1), []string{"falls w2/1 w1/2"}},
		{"a lock that was granted to a call that gave up ended with it", strings.ReplaceAll(gaveUp, "permits 2", ""), []string{"falls w2/1 w1/2"}},
		{"of another name", grant("w1/1", 0, 1, 2048) + "2 w2/1 asked name m\n 3 w2/1 got name m token 1024\n", nil},
		{"without tokens", "0 w1/1 asked\n 1 w1/1 got\n 2 w2/1 asked\n 3 w2/1 got\n", nil},
	} {
		var found []string
		for _, f := range read(t, c.text).TokenFaults() {
			found = append(found, fmt.Sprintf("%s %s/%d %s/%d", kinds[f.Equal], f.Earlier.Worker, f.Earlier.Op, f.Later.Worker, f.Later.Op))
		}
		require.Equal(t, c.want, found, c.name)
	}
}

func TestLate(t *testing.T) {
	const (
		got   = "0 w1/1 asked\n 10 w1/1 got deadline 1890\n"
		asked = "0 w1/1 asked limit 500\n"
	)
	told, returned := (*history.History).ToldLate, (*history.History).ReturnedLate
	for _, c := range []struct {
		name, text string
		late       func(*history.History, *history.Span) time.Duration
		ms         float64
	}{
		{"told at the deadline", got + "1891 w1/1 told: silence", told, 1},
		{"told after the server could grant it again", got + "2000.5 w1/1 told: silence", told, 110.5},
		{"never told", got + "5000 - noted: the end", told, 3110},
		{"got after its deadline", "0 w1/1 asked\n 2000 w1/1 got deadline 0.5\n 2003 w1/1 releasing", told, 3},
		{"no deadline", "0 w1/1 asked\n 10 w1/1 got\n 5000 - noted: the end", told, 0},
		{"released without having been told", got + "3000 w1/1 releasing", told, 1110},
		{"told of something else", got + "600 w1/1 told: removed\n 5000 - noted: the end", told, 0},
		{"released", got + "600 w1/1 releasing\n 5000 w1/1 released", told, 0},
		{"killed", got + "1900 w1 killed\n 5000 - noted: the end", told, 10},
		{"stopped then", got + "1000 w1 stopped\n 4000 w1 continued\n 4001 w1/1 told: silence", told, 0},
		{"stopped before", got + "1000 w1 stopped\n 1500 w1 continued\n 2001 w1/1 told: silence", told, 111},
		{"another was stopped", got + "1000 w2 stopped\n 4000 w2 continued\n 4001 w1/1 told: silence", told, 2111},

		{"returned in time", asked + "499 w1/1 failed class unavailable: no", returned, 0},
		{"failed late", asked + "520 w1/1 failed: no", returned, 20},
		{"failed late, and stopped later", asked + "520 w1/1 failed: no\n 600 w1 stopped", returned, 20},
		{"got late", asked + "530 w1/1 got", returned, 30},
		{"never returned", asked + "1501 - noted: the end", returned, 1001},
		{"no limit", "0 w1/1 asked\n 9000 w1/1 failed: no", returned, 0},
		{"killed when it hung", asked + "1600 w1 killed\n 9000 - noted: the end", returned, 1100},
		{"stopped at its limit", asked + "400 w1 stopped\n 600 w1 continued\n 1800 w1/1 failed: no", returned, 0},
		{"stalled at its limit", asked + "800 w1 stalled limit 450\n 810 w2 stalled limit 450\n 1800 w1/1 failed: no\n 1900 w1 stalled limit 1700", returned, 900},
		{"stopped before its limit", asked + "300 w1 stopped\n 400 w1 continued\n 540 w1/1 failed: no", returned, 40},
	} {
		h := read(t, c.text)
		require.Equal(t, time.Duration(c.ms*float64(time.Millisecond)), c.late(h, h.Attempts[0]), c.name)
	}
}
