package history_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

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
		{"one after the other", first + "500 w1/1 releasing\n 501 w1/1 released\n" + second(502), 0, 0},
		{"while Release is under way", first + "500 w1/1 releasing\n 600 w1/1 released\n" + second(502), 0, 0},
		{"before Release was called", first + "500 w1/1 releasing\n 600 w1/1 released\n" + second(499), 499, 500},
		{"at the instant of the deadline", first + second(1900), 0, 0},
		{"before the deadline", first + second(1899), 1899, 1900},
		{"after the deadline was moved", first + "600 w1/1 extended deadline 2500\n" + second(1900), 1900, 2000},
		{"told in time", first + "600 w1/1 told: removed\n" + second(601), 0, 0},
		{"told too late", first + "600 w1/1 told: removed\n" + second(590), 590, 600},
		{"killed", first + "600 w1 killed\n" + second(601), 0, 0},
		{"stopped, and past its deadline", first + "600 w1 stopped\n" + second(2010) + "2050 w1 continued\n 2051 w1/1 told: silence", 0, 0},
		{"stopped, and granted too early", first + "600 w1 stopped\n" + second(1500) + "2050 w1 continued\n 2051 w1/1 told: silence", 1500, 1600},
		{"another name", first + "600 w2/1 asked name m\n 601 w2/1 got name m\n", 0, 0},
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
