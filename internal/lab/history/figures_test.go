package history_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/internal/lab/history"
)

func measure(t *testing.T, text string) history.Figures {
	t.Helper()
	return history.Measure(read(t, text), 110*time.Millisecond)
}

// one is the quantiles of one sample; of none if ms is 0.
func one(ms float64) history.Quantiles {
	if ms == 0 {
		return history.Quantiles{}
	}
	d := time.Duration(ms * float64(time.Millisecond))
	return history.Quantiles{N: 1, P50: d, P99: d, Max: d}
}

func TestQuantiles(t *testing.T) {
	var s, other history.Samples
	require.Zero(t, s.Quantiles())
	for i := range 200 {
		s.Add(time.Duration(200-i) * time.Millisecond)
	}
	require.Equal(t, history.Quantiles{N: 200, P50: 100 * time.Millisecond, P99: 198 * time.Millisecond, Max: 200 * time.Millisecond}, s.Quantiles())
	other.Add(time.Second)
	s.Merge(other)
	require.Equal(t, time.Second, s.Quantiles().Max)
	require.Equal(t, 201, s.Quantiles().N)
	require.Equal(t, one(1000), other.Quantiles())
}

func TestFiguresAreCounted(t *testing.T) {
	f := measure(t, `
		0    - noted: injected
		0    w1/1 asked
		10   w1/1 got token 2048 deadline 1890
		20   w2/1 asked
		30   w2/1 got token 1024
		40   w3/1 asked
		50   w3/1 failed class held: held
		60   w3/2 asked name m shared
		61   w3/2 got name m
		62   w4/2 asked name m shared
		63   w4/2 got name m
		104  - noted: injected
		110  w1/1 releasing
		111  w1/1 released
		112  w2/1 releasing`)
	require.Equal(t, history.Figures{Phases: 1, Faults: 2, Acquisitions: 4, Overlapped: 1, Readers: 1}, f)
}

func TestTimes(t *testing.T) {
	const (
		got     = "0 w1/1 asked\n 10 w1/1 got deadline 1890\n"
		asked   = "0 w1/1 asked limit 500\n"
		removed = got + "20 w2/1 asked name m\n 30 w2/1 got name m\n 500 - noted: removed n\n"
		killed  = got + `
			10 w1/2 asked name m
			20 w1/2 got name m deadline 1890
			30 w1/2 releasing name m
			500 w1 killed
			600 w2/1 asked name m
			601 w2/1 got name m
			700 w2/2 asked
		`
	)
	telling := func(f *history.Figures) *history.Samples { return &f.TellingAfter }
	late := func(f *history.Figures) *history.Samples { return &f.LateReturn }
	notice := func(f *history.Figures) *history.Samples { return &f.RemovalNotice }
	takeover := func(f *history.Figures) *history.Samples { return &f.Takeover }
	recovery := func(f *history.Figures) *history.Samples { return &f.Recovery }
	for _, c := range []struct {
		name, text string
		of         func(*history.Figures) *history.Samples
		ms         float64 // the sample; 0: none
	}{
		{"told at the deadline", got + "1891 w1/1 told: silence", telling, 1},
		{"told at the end of the margin", got + "2000 w1/1 told: silence", telling, 110},
		{"told after the server could grant it again", got + "2000.5 w1/1 told: silence", telling, 110.5},
		{"never told", got + "5000 - noted: the end", telling, 3110},
		{"released without having been told", got + "3000 w1/1 releasing", telling, 1110},
		{"not yet told", got + "2500 - noted: the end", telling, 0},
		{"told of something else", got + "600 w1/1 told: removed\n 5000 - noted: the end", telling, 0},
		{"released", got + "600 w1/1 releasing\n 5000 w1/1 released", telling, 0},
		{"killed", got + "1900 w1 killed\n 5000 - noted: the end", telling, 0},
		{"stopped then", got + "1000 w1 stopped\n 4000 w1 continued\n 4001 w1/1 told: silence", telling, 0},
		{"stopped before", got + "1000 w1 stopped\n 1500 w1 continued\n 2001 w1/1 told: silence", telling, 111},
		{"another was stopped", got + "1000 w2 stopped\n 4000 w2 continued\n 4001 w1/1 told: silence", telling, 2111},

		{"returned in time", asked + "499 w1/1 failed class unavailable: no", late, 0},
		{"failed late", asked + "520 w1/1 failed: no", late, 20},
		{"got late", asked + "530 w1/1 got", late, 30},
		{"failed much too late", asked + "1501 w1/1 failed: no", late, 1001},
		{"never returned", asked + "1501 - noted: the end", late, 1001},
		{"not yet returned", asked + "1400 - noted: the end", late, 0},
		{"no limit", "0 w1/1 asked\n 9000 w1/1 failed: no", late, 0},
		{"killed while it asked", asked + "600 w1 killed\n 9000 - noted: the end", late, 0},
		{"killed when it hung", asked + "1600 w1 killed\n 9000 - noted: the end", late, 1100},
		{"stopped at its limit", asked + "400 w1 stopped\n 600 w1 continued\n 1800 w1/1 failed: no", late, 0},
		{"stopped before its limit", asked + "300 w1 stopped\n 400 w1 continued\n 540 w1/1 failed: no", late, 40},

		{"told of a removal", removed + "510 w3/1 asked\n 520 w3/1 got\n 650 w1/1 told: removed\n 700 w2/1 told name m: removed\n 900 w3/1 told: of another loss", notice, 150},
		{"released after a removal", removed + "650 w1/1 releasing\n 700 w2/1 told name m: removed", notice, 0},
		{"taken over: a held lock, not a released one", killed + "2010 w2/2 got", takeover, 1510},
		{"not taken over", killed + "2010 w2/2 failed", takeover, 0},
		{"recovered, by the first worker that is not new", `
			0 w1/1 asked
			0 w2/1 asked
			5 w2/1 got
			10 - noted: injected
			100 - noted: healed
			110 w4 spawned
			111 w4/1 asked
			112 w4/1 got
			120 w1/1 got
			150 w2/1 releasing
			151 w2/2 asked
			160 w2/2 got
			170 - noted: injected
			190 - noted: healed`, recovery, 20},
		{"not recovered until the next fault", "0 - noted: injected\n 10 - noted: healed\n 20 w1/1 asked\n 30 - noted: injected\n 40 w1/1 got", recovery, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := measure(t, c.text)
			require.Equal(t, one(c.ms), c.of(&f).Quantiles())
		})
	}
}

func TestFiguresAddUp(t *testing.T) {
	one := history.Figures{Phases: 1, Overlapped: 2, Permits: 3}
	one.Takeover.Add(12340 * time.Microsecond)
	sum := one
	sum.Add(one)
	require.Equal(t, []int{2, 4, 6, 2}, []int{sum.Phases, sum.Overlapped, sum.Permits, sum.Takeover.Quantiles().N})

	text, err := json.Marshal(one)
	require.NoError(t, err)
	require.Contains(t, string(text), `"takeover":{"n":1,"p50_ms":12.3,"p99_ms":12.3,"max_ms":12.3}`)
	var read history.Figures
	require.NoError(t, json.Unmarshal(text, &read))
	again, err := json.Marshal(read)
	require.NoError(t, err)
	require.JSONEq(t, string(text), string(again))
}
