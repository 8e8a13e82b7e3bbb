package history_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/internal/lab/history"
	historytext "github.com/lockport/lockport/internal/lab/history/text"
	"github.com/lockport/lockport/internal/lab/peer"
)

// read parses a handwritten history.
func read(t *testing.T, text string) *history.History {
	t.Helper()
	return peer.Must(history.NewHistory(historytext.Events(text)))(t)
}

func TestBeliefEndsWithTheFirstOf(t *testing.T) {
	const got = "0 w1/1 asked\n 10 w1/1 got token 1024 deadline 1900\n 5000 - noted: the end\n"
	for _, c := range []struct {
		then   string
		until  float64
		ending string
	}{
		{"", 1900, "the deadline passed"},
		{"600 w1/1 extended deadline 2500\n 1200 w1/1 extended deadline 3100", 3100, "the deadline passed"},
		{"600 w1/1 told deadline 2500: lost", 600, "told that it was lost"},
		{"2600 w1/1 told deadline 2500: lost", 2500, "the deadline passed"},
		{"2600 w1/1 told: lost", 1900, "the deadline passed"},
		{"600 w1/1 releasing deadline 2500\n 700 w1/1 released", 600, "released"},
		{"2200 w1/1 releasing deadline 2500\n 2300 w1/1 released", 2200, "released"},
		{"500 w1/1 told: lost\n 600 w1/1 releasing", 500, "told that it was lost"},
		{"700 w1 killed", 700, "killed"},
		{"700 w2 killed", 1900, "the deadline passed"},
		{"5 w1 killed", 5, "killed"}, // it lived for a moment after the parent recorded the kill
	} {
		h := read(t, got+c.then)
		require.Len(t, h.Spans, 1)
		require.Equal(t, historytext.At(c.until), h.Spans[0].Until, c.then)
		require.Equal(t, c.ending, h.Spans[0].Ending, c.then)
	}
	h := read(t, "0 w1/1 asked\n 10 w1/1 got\n 5000 - noted: the end\n")
	require.Equal(t, historytext.At(5000), h.Spans[0].Until, "no deadline")
	require.Equal(t, "still held at the end", h.Spans[0].Ending)
}

func TestContradictionsAreNotJudged(t *testing.T) {
	for _, text := range []string{
		"0 w1/1 got",
		"0 w1/1 asked\n 1 w1/1 asked",
		"0 w1/1 asked\n 1 w1/1 failed\n 2 w1/1 got",
		"0 w1/1 asked\n 1 w1/1 got name other",
		"0 w1/1 asked\n 1 w1/1 told",
		"0 w1/1 asked\n 1 w1/1 got\n 2 w1/1 told\n 3 w1/1 told",
		"0 w1/1 asked\n 1 w1/1 got\n 2 w1/1 released",
	} {
		require.ErrorContains(t, peer.ErrOf(history.NewHistory(historytext.Events(text))), "w1/1 on ", text)
	}
}
