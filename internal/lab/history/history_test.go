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

// read parses a handwritten history.
func read(t *testing.T, text string) *history.History {
	t.Helper()
	h, err := history.NewHistory(historytext.Events(text))
	require.NoError(t, err)
	return h
}

func TestBeliefEndsWithTheFirstOf(t *testing.T) {
	const got = "0 w1/1 asked\n 10 w1/1 got token 1024 deadline 1900\n 5000 - noted: the end\n"
	for _, c := range []struct {
		then   string
		until  float64
		ending string
	}{
		{"", 1900, "its deadline"},
		{"600 w1/1 extended deadline 2500\n 1200 w1/1 extended deadline 3100", 3100, "its deadline"},
		{"600 w1/1 told deadline 2500: lost", 600, "it was told of the loss"},
		{"2600 w1/1 told deadline 2500: lost", 2500, "its deadline"},
		{"2600 w1/1 told: lost", 1900, "its deadline"},
		{"600 w1/1 releasing deadline 2500\n 700 w1/1 released", 600, "it was released"},
		{"2200 w1/1 releasing deadline 2500\n 2300 w1/1 released", 2200, "it was released"},
		{"500 w1/1 told: lost\n 600 w1/1 releasing", 500, "it was told of the loss"},
		{"700 w1 killed", 700, "its worker was killed"},
		{"700 w2 killed", 1900, "its deadline"},
		{"5 w1 killed", 5, "its worker was killed"}, // it lived for a moment after the parent recorded the kill
	} {
		h := read(t, got+c.then)
		require.Len(t, h.Spans, 1)
		require.Equal(t, historytext.At(c.until), h.Spans[0].Until, c.then)
		require.Equal(t, c.ending, h.Spans[0].Ending, c.then)
	}
	h := read(t, "0 w1/1 asked\n 10 w1/1 got\n 5000 - noted: the end\n")
	require.Equal(t, historytext.At(5000), h.Spans[0].Until, "no deadline")
	require.Equal(t, "the end of the history", h.Spans[0].Ending)
}

func TestContradictionsAreNotJudged(t *testing.T) {
	for _, text := range []string{
		"0 w1/1 got",
		"0 w1/1 asked\n 1 w1/1 asked",
		"0 w1/1 asked\n 1 w1/1 got\n 2 w1/1 got",
		"0 w1/1 asked\n 1 w1/1 failed\n 2 w1/1 got",
		"0 w1/1 asked\n 1 w1/1 got name other",
		"0 w1/1 asked\n 1 w1/1 got\n 2 w1/1 released",
	} {
		_, err := history.NewHistory(historytext.Events(text))
		require.ErrorContains(t, err, "w1/1 on ", text)
	}
	h, err := history.NewHistory(nil)
	require.NoError(t, err)
	require.Empty(t, h.Spans)
	require.Empty(t, h.Overlaps())
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
		{"got late", asked + "530 w1/1 got", returned, 30},
		{"never returned", asked + "1501 - noted: the end", returned, 1001},
		{"no limit", "0 w1/1 asked\n 9000 w1/1 failed: no", returned, 0},
		{"killed when it hung", asked + "1600 w1 killed\n 9000 - noted: the end", returned, 1100},
		{"stopped at its limit", asked + "400 w1 stopped\n 600 w1 continued\n 1800 w1/1 failed: no", returned, 0},
		{"stopped before its limit", asked + "300 w1 stopped\n 400 w1 continued\n 540 w1/1 failed: no", returned, 40},
	} {
		h := read(t, c.text)
		require.Equal(t, time.Duration(c.ms*float64(time.Millisecond)), c.late(h, h.Attempts[0]), c.name)
	}
}

// grant is a hold of a worker in a mode, with the times at which it was asked for and got.
func grant(worker string, asked, got float64, token int) string {
	worker, mode, _ := strings.Cut(worker, " ")
	return fmt.Sprintf("%v %s asked %s\n %v %s got token %d\n %v %s releasing\n", asked, worker, mode, got, worker, token, got+1, worker)
}

func TestTokenFaults(t *testing.T) {
	const equal, falls = "equal", "falls"
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
		{"permits rise", grant("w1/1 permits 2", 0, 1, 1024) + grant("w2/1 permits 2", 2, 3, 2048), nil},
		{"permits fall", grant("w1/1 permits 2", 0, 1, 2048) + grant("w2/1 permits 2", 2, 3, 1024), []string{"falls w1/1 w2/1"}},
		{"a permit twice", grant("w1/1 permits 2", 0, 1, 1024) + grant("w2/1 permits 2", 0.5, 3, 1024), []string{"equal w1/1 w2/1"}},
		{"a permit was granted to a call that gave up, and had by the next", "0 w1/1 asked permits 2\n" + grant("w2/1 permits 2", 1, 2, 2048) +
			"3 w1/2 asked permits 2\n 4 w1/1 failed\n 5 w1/2 got token 1024\n", nil},
		{"of another name", grant("w1/1", 0, 1, 2048) + "2 w2/1 asked name m\n 3 w2/1 got name m token 1024\n", nil},
		{"without tokens", "0 w1/1 asked\n 1 w1/1 got\n 2 w2/1 asked\n 3 w2/1 got\n", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var found []string
			for _, f := range read(t, c.text).TokenFaults() {
				what := falls
				if f.Equal {
					what = equal
				}
				found = append(found, fmt.Sprintf("%s %s/%d %s/%d", what, f.Earlier.Worker, f.Earlier.Op, f.Later.Worker, f.Later.Op))
			}
			require.Equal(t, c.want, found)
		})
	}
}
