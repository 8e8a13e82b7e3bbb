package report

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// sample is a report with every class, variants, cells that were not run, a missing server and all costs. Its figures are made up.
func sample(t testing.TB) *Report {
	t.Helper()
	return read(t, "testdata/sample.json")
}

func read(t testing.TB, name string) *Report {
	t.Helper()
	f, err := os.Open(name)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	r, err := Read(f)
	require.NoError(t, err)
	return r
}

// reports are the sample and reports of other shapes, with texts and figures that no report should have, and any may.
func reports(t testing.TB) map[string]*Report {
	t.Helper()
	all := map[string]*Report{
		"sample": sample(t), "empty": {Version: Version, Began: time.Unix(0, 0).UTC()}, "few": random(2, 2, 3), "many": random(1, 30, 40), "some": random(3, 8, 9),
	}
	if !testing.Short() { // its many pictures take their time
		all["real"] = read(t, "../../../docs/sample/report.json") // a whole run on real servers, which the documentation shows
	}
	costs, hostile, odd, none, one := sample(t), sample(t), sample(t), sample(t), sample(t)
	costs.Hazards, costs.Cells, costs.Missing = nil, nil, nil
	all["costs"] = costs

	const text = "<script>alert(1)</script> ]]> --> \" ' & </svg></title> {{.}} `x` | [a](b)\x00\x1b[31m\nline two \u202e é 漢字 =1+1"
	alter(reflect.ValueOf(hostile), func(v reflect.Value) {
		if v.Kind() == reflect.String && v.String() != "" {
			v.SetString(v.String() + text)
		}
	})
	all["hostile"] = hostile

	figures := []float64{1e300, -1, 1e-9, 1e13, 0}
	alter(reflect.ValueOf(odd), func(v reflect.Value) {
		if v.Kind() == reflect.Float64 {
			v.SetFloat(figures[0])
			figures = append(figures[1:], figures[0])
		}
	})
	all["odd"] = odd

	alter(reflect.ValueOf(none), func(v reflect.Value) { // everything was tried, and nothing came of it
		if v.Kind() == reflect.Float64 || v.Kind() == reflect.Int && v.Int() != Version {
			v.SetZero()
		}
	})
	all["none"] = none

	one.Subjects = []Subject{{Name: "redis-2", Title: "Redis", URL: "redis://user:xxxxx@a.rather.long.name.of.a.host.example.org:6379/3", Page: "redis"}}
	one.Hazards, one.Cells = nil, nil
	one.Costs = one.Costs[1:2]
	one.Costs[0].Subject = "redis-2"
	all["one"] = one
	return all
}

// alter calls change with each text and number in v.
func alter(v reflect.Value, change func(reflect.Value)) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			alter(v.Elem(), change)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			alter(v.Index(i), change)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				alter(v.Field(i), change)
			}
		}
	default:
		change(v)
	}
}

// random is a report with runs of up to so many clients and marks, with names of all lengths, at instants that often meet.
func random(seed uint64, clients, marks int) *Report {
	rnd := rand.New(rand.NewPCG(seed, seed))
	word := func() string { return strings.TrimSpace(strings.Repeat("a word ", 1+rnd.IntN(8))) }
	r := &Report{Version: Version, Began: time.Unix(1e9, 0).UTC(), Subjects: []Subject{{Name: "redis", Title: "Redis"}, {Name: "mine", Title: word()}}}
	for i := range 12 {
		n := Run{Class: Unsafe, Observed: word(), Took: 100 + rnd.Float64()*20000}
		at := func() float64 {
			if rnd.IntN(3) == 0 {
				return math.Round(rnd.Float64()*4) / 4 * n.Took
			}
			return rnd.Float64() * n.Took
		}
		band := func() Band {
			from := at()
			return Band{from, math.Min(n.Took, from+at()/4), word()}
		}
		for j := range 1 + rnd.IntN(clients) {
			l := Lane{Client: fmt.Sprintf("%c%d", 'A'+rune(j%26), j)}
			if rnd.IntN(9) == 0 {
				l.Client = word()
			}
			for t := at() / 4; t < n.Took; {
				s := Span{Asked: t, Held: rnd.IntN(4) > 0, Token: Token(rnd.Uint64() >> rnd.IntN(64)), Ending: word()}
				s.Got = t + at()/9
				s.Until = s.Got + at()/6
				t = s.Until + at()/9
				l.Spans = append(l.Spans, s)
			}
			for range rnd.IntN(20) {
				l.Writes = append(l.Writes, Write{at(), rnd.IntN(4) == 0, rnd.IntN(3) == 0})
			}
			l.Stopped, l.Cut, l.Killed = append(l.Stopped, band()), append(l.Cut, band()), at()*float64(rnd.IntN(2))
			n.Lanes = append(n.Lanes, l)
		}
		for range rnd.IntN(marks) {
			n.Marks, n.Faults = append(n.Marks, Mark{at(), word()}), append(n.Faults, band())
			n.Overlaps = append(n.Overlaps, Overlap{at(), at(), word(), n.Lanes[0].Client, [2]Token{Token(rnd.Uint64() >> 30), Token(rnd.Uint64() >> 20)}})
		}
		id := fmt.Sprintf("H%d", i+1)
		r.Cells = append(r.Cells, Cell{Hazard: id, Subject: []string{"redis", "mine"}[rnd.IntN(2)], Class: Classes()[rnd.IntN(7)], Seen: 1, Of: 1, Observed: word(), Runs: []Run{n}})
		r.Hazards = append(r.Hazards, Hazard{ID: id, Title: word(), Happens: word(), Do: word()})
	}
	return r
}
