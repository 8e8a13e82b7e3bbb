package history_test

import (
	"testing"

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

func TestSpansHaveWhatHappened(t *testing.T) {
	h := read(t, `
		30   w1/2 got token 2048 deadline 1920
		0    w1/2 asked limit 500
		31   w2/2 failed class held: held
		1    w2/2 asked limit 501
		700  w1/2 told: silence
		800  w1/2 releasing
		900  w1/2 released: too late
		20   w3/1 got name other
		10   w3/1 asked name other
		950  w3   killed
		40   w4/1 asked`)
	require.Equal(t, []string{"w3/1", "w1/2 (token 2048)"}, []string{h.Spans[0].String(), h.Spans[1].String()}, "by when they began")
	require.Equal(t, "other", h.Spans[0].Name)
	require.Equal(t, historytext.At(950), h.Spans[0].Killed)
	s := h.Spans[1]
	at := historytext.At
	require.Equal(t, history.Span{Worker: "w1", Op: 2, Name: "n", Token: 2048, Asked: at(0), Limit: at(500), Got: at(30), ClaimAsked: at(0), Deadline: at(1920), Told: at(700),
		Releasing: at(800), Released: at(900), ReleaseErr: "too late", Until: at(700), Ending: "it was told of the loss"}, *s)
	require.False(t, s.Clean())
	require.Equal(t, historytext.At(0), h.Start)
	require.Equal(t, historytext.At(950), h.End)
}

func TestContradictionsAreNotJudged(t *testing.T) {
	for _, text := range []string{
		"0 w1/1 got",
		"0 w1/1 asked\n 1 w1/1 asked",
		"0 w1/1 asked\n 1 w1/1 got\n 2 w1/1 got",
		"0 w1/1 asked\n 1 w1/1 got\n 2 w1/1 failed",
		"0 w1/1 asked\n 1 w1/1 failed\n 2 w1/1 failed",
		"0 w1/1 asked\n 1 w1/1 failed\n 2 w1/1 got",
		"0 w1/1 asked\n 1 w1/1 extended deadline 5",
		"0 w1/1 asked\n 1 w1/1 got name other",
		"0 w1/1 asked\n 1 w1/1 got\n 2 w1/1 told\n 3 w1/1 told",
		"0 w1/1 asked\n 1 w1/1 got\n 2 w1/1 released",
		"0 w1/1 asked\n 1 w1/1 got\n 2 w1/1 releasing\n 3 w1/1 releasing",
	} {
		_, err := history.NewHistory(historytext.Events(text))
		require.ErrorContains(t, err, "w1/1 on ", text)
	}
	h, err := history.NewHistory(nil)
	require.NoError(t, err)
	require.Empty(t, h.Spans)
	require.Empty(t, h.Overlaps())
}

func TestSpellsLastUntilTheirEnd(t *testing.T) {
	h := read(t, `
		10 - noted: injected
		10 w1 stopped
		12 w2 stopped
		15 - noted: leader killed
		20 - noted: injected
		20 w1 continued
		25 w1 continued
		30 - noted: healed
		30 w1 stopped
		35 - noted: healed
		40 - noted: injected
		50 - noted: the end`)
	spell := func(from, to float64) history.Spell {
		return history.Spell{From: historytext.At(from), To: historytext.At(to)}
	}
	require.Equal(t, []history.Spell{spell(10, 20), spell(20, 30), spell(40, 50)}, h.Injections())
	require.Equal(t, []history.Spell{spell(10, 20), spell(30, 50)}, h.Stops("w1"))
	require.Equal(t, []history.Spell{spell(12, 50)}, h.Stops("w2"))
	require.Empty(t, h.Stops("w3"))
	require.Empty(t, h.Aways())
	require.Equal(t, "2ms w2 stopped; 5ms leader killed; 10ms injected; 10ms w1 continued", h.Notes(historytext.At(11), historytext.At(20)))
}
