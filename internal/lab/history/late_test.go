package history_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/internal/lab/history"
)

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
