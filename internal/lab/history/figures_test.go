package history_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/internal/lab/history"
)

func measure(t *testing.T, text string) history.Figures {
	t.Helper()
	return history.Measure(read(t, text), 110*time.Millisecond)
}

// one is the quantiles of one sample.
func one(ms float64) history.Quantiles {
	d := time.Duration(ms * float64(time.Millisecond))
	return history.Quantiles{N: 1, P50: d, P99: d, Max: d}
}

func TestQuantiles(t *testing.T) {
	var s history.Samples
	require.Zero(t, s.Quantiles())
	for i := range 200 {
		s.Add(time.Duration(200-i) * time.Millisecond)
	}
	require.Equal(t, history.Quantiles{N: 200, P50: 100 * time.Millisecond, P99: 198 * time.Millisecond, Max: 200 * time.Millisecond}, s.Quantiles())
	var other history.Samples
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
		60   w3/2 asked
		70   w3/2 failed class held: held
		80   w1/1 wrote
		81   w2/1 wrote
		82   w2/1 refused
		100  - noted: injected
		110  w1/1 releasing
		111  w1/1 released
		112  w2/1 releasing`)
	require.Equal(t, history.Figures{Phases: 1, Faults: 2, Acquisitions: 2, Overlaps: 1, Overlapped: 1, TokenFaults: 1, Wrote: 2}, f)
}

func TestPauses(t *testing.T) {
	f := measure(t, `
		0  w1/1 asked
		1  w1/1 got deadline 100
		50 w1/1 checked valid deadline 100
		100 w1/1 checked valid deadline 100
		101 w1/1 checked deadline 100
		102 w1/1 checked valid deadline 100
		103 w1/1 checked valid`)
	require.Equal(t, 2, f.Paused)
	require.Equal(t, 1, f.PausedValid)
}

func TestSilence(t *testing.T) {
	const got = "0 w1/1 asked\n 10 w1/1 got deadline 1890\n"
	for _, c := range []struct {
		name, then   string
		silent, late int
		after        float64
	}{
		{"told at the deadline", "1891 w1/1 told: silence", 1, 0, 1},
		{"told at the end of the margin", "2000 w1/1 told: silence", 1, 0, 110},
		{"told after the server could grant it anew", "2000.5 w1/1 told: silence", 1, 1, 110.5},
		{"never told", "5000 - noted: the end", 1, 1, 3110},
		{"released without having been told", "3000 w1/1 releasing", 1, 1, 1110},
		{"not yet told", "2500 - noted: the end", 0, 0, 0},
		{"told of something else", "600 w1/1 told: removed\n 5000 - noted: the end", 0, 0, 0},
		{"released", "600 w1/1 releasing\n 5000 w1/1 released", 0, 0, 0},
		{"killed", "1900 w1 killed\n 5000 - noted: the end", 0, 0, 0},
		{"stopped then", "1000 w1 stopped\n 4000 w1 continued\n 4001 w1/1 told: silence", 0, 0, 0},
		{"stopped before", "1000 w1 stopped\n 1500 w1 continued\n 2001 w1/1 told: silence", 1, 1, 111},
		{"another was stopped", "1000 w2 stopped\n 4000 w2 continued\n 4001 w1/1 told: silence", 1, 1, 2111},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := measure(t, got+c.then)
			require.Equal(t, [2]int{c.silent, c.late}, [2]int{f.Silent, f.SilentLate})
			if c.silent > 0 {
				require.Equal(t, one(c.after), f.TellingAfter.Quantiles())
			} else {
				require.Zero(t, f.TellingAfter.Quantiles())
			}
		})
	}
}

func TestRemovalNotice(t *testing.T) {
	const text = "0 w1/1 asked\n 10 w1/1 got deadline 1890\n 20 w2/1 asked name m\n 30 w2/1 got name m\n 500 - noted: removed n\n"
	f := measure(t, text+"510 w3/1 asked\n 520 w3/1 got\n 650 w1/1 told: removed\n 700 w2/1 told name m: removed\n 900 w3/1 told: of another loss")
	require.Equal(t, one(150), f.RemovalNotice.Quantiles())
	f = measure(t, text+"650 w1/1 releasing\n 700 w2/1 told name m: removed")
	require.Zero(t, f.RemovalNotice.Quantiles())
}

func TestLateReturns(t *testing.T) {
	for _, c := range []struct {
		name, text string
		late       float64 // 0: no sample
		hung       int
	}{
		{"in time", "0 w1/1 asked limit 500\n 499 w1/1 failed class unavailable: no", 0, 0},
		{"failed", "0 w1/1 asked limit 500\n 520 w1/1 failed: no", 20, 0},
		{"got", "0 w1/1 asked limit 500\n 530 w1/1 got", 30, 0},
		{"much too late", "0 w1/1 asked limit 500\n 1501 w1/1 failed: no", 1001, 1},
		{"never", "0 w1/1 asked limit 500\n 1501 - noted: the end", 0, 1},
		{"not yet", "0 w1/1 asked limit 500\n 1400 - noted: the end", 0, 0},
		{"no limit", "0 w1/1 asked\n 9000 w1/1 failed: no", 0, 0},
		{"killed", "0 w1/1 asked limit 500\n 600 w1 killed\n 9000 - noted: the end", 0, 0},
		{"killed when it hung", "0 w1/1 asked limit 500\n 1600 w1 killed\n 9000 - noted: the end", 0, 1},
		{"stopped", "0 w1/1 asked limit 500\n 400 w1 stopped\n 600 w1 continued\n 1800 w1/1 failed: no", 0, 0},
		{"stopped before", "0 w1/1 asked limit 500\n 300 w1 stopped\n 400 w1 continued\n 540 w1/1 failed: no", 40, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := measure(t, c.text)
			require.Equal(t, c.hung, f.Hung)
			if c.late > 0 {
				require.Equal(t, one(c.late), f.LateReturn.Quantiles())
			} else {
				require.Zero(t, f.LateReturn.Quantiles())
			}
		})
	}
}

func TestTakeover(t *testing.T) {
	const text = `
		0 w1/1 asked
		10 w1/1 got deadline 1890
		10 w1/2 asked name m
		20 w1/2 got name m deadline 1890
		30 w1/2 releasing name m
		500 w1 killed
		600 w2/1 asked name m
		601 w2/1 got name m
		700 w2/2 asked
	`
	f := measure(t, text+"2010 w2/2 got")
	require.Equal(t, one(1510), f.Takeover.Quantiles(), "of the lock that it held, and not of what it had released")
	f = measure(t, text+"2010 w2/2 failed")
	require.Zero(t, f.Takeover.Quantiles())
}

func TestRecovery(t *testing.T) {
	f := measure(t, `
		0 w1/1 asked
		0 w2/1 asked
		0 w3/1 asked
		5 w2/1 got
		10 - noted: injected
		100 - noted: healed
		120 w1/1 got
		130 w1/1 releasing
		131 w1/2 asked
		132 w4 spawned
		133 w4/1 asked
		134 w4/1 got
		140 w1/2 got
		150 w2/1 releasing
		151 w2/2 asked
		160 w2/2 got
		170 - noted: injected
		180 w3/1 got
		190 - noted: healed`)
	require.Equal(t, one(20), f.Recovery.Quantiles())
}

func TestFiguresAddUp(t *testing.T) {
	full := func() history.Figures {
		var s history.Samples
		s.Add(12340 * time.Microsecond)
		return history.Figures{Phases: 1, Faults: 2, Acquisitions: 3, Overlaps: 5, Overlapped: 17, TokenFaults: 6,
			Wrote: 8, LostFenced: 10, LostBare: 11, Paused: 12, PausedValid: 13, Silent: 14, SilentLate: 15, TellingAfter: s, RemovalNotice: s,
			LateReturn: s, Hung: 16, Takeover: s, Recovery: s}
	}
	for i := range reflect.TypeFor[history.Figures]().NumField() {
		require.False(t, reflect.ValueOf(full()).Field(i).IsZero(), "a field that this test leaves out: %s", reflect.TypeFor[history.Figures]().Field(i).Name)
	}
	var sum history.Figures
	sum.Add(full())
	require.Equal(t, full(), sum, "no field is left out")
	sum.Add(full())
	require.Equal(t, 2, sum.Takeover.Quantiles().N)
	require.Equal(t, int64(22), sum.LostBare)

	text, err := json.Marshal(full())
	require.NoError(t, err)
	require.Contains(t, string(text), `"takeover":{"n":1,"p50_ms":12.3,"p99_ms":12.3,"max_ms":12.3}`)
	var read history.Figures
	require.NoError(t, json.Unmarshal(text, &read))
	require.Equal(t, one(12.3), read.Takeover.Quantiles())
	again, err := json.Marshal(read)
	require.NoError(t, err)
	require.JSONEq(t, string(text), string(again))
}
