package report

import (
	"os"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// sample is a part of the documentation's report, from a run on real servers: with every class, variants, cells that were not run and costs, and at
// most two runs of each cell. A missing server is added.
func sample(t testing.TB) *Report {
	t.Helper()
	f, err := os.Open("../../../docs/sample/report.json")
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	r, err := Read(f)
	require.NoError(t, err)
	some := []string{"H1", "H7", "H11", "H12"}
	r.Hazards = slices.DeleteFunc(r.Hazards, func(h Hazard) bool { return !slices.Contains(some, h.ID) })
	r.Cells = slices.DeleteFunc(r.Cells, func(c Cell) bool { return !slices.Contains(some, c.Hazard) })
	for i, c := range r.Cells {
		r.Cells[i].Runs = c.Runs[:min(2, len(c.Runs))]
	}
	r.Missing = []Missing{{Subject: "postgres", Program: "pgbouncer", Install: "apt-get install pgbouncer"}}
	return r
}

// reports are the sample, and reports of other shapes, with texts and figures that are unlikely but possible.
func reports(t testing.TB) map[string]*Report {
	t.Helper()
	const text = "<script>alert(1)</script> ]]> --> \" ' & </svg></title> {{.}} `x` | [a](b)\x00\x1b[31m\nline two \u202e é 漢字 =1+1"
	hostile, odd, none, costs := sample(t), sample(t), sample(t), sample(t)
	alter(reflect.ValueOf(hostile), func(v reflect.Value) {
		if v.Kind() == reflect.String && v.String() != "" {
			v.SetString(v.String() + text)
		}
	})
	figures := []float64{1e300, -1, 1e-9, 1e13, 0}
	alter(reflect.ValueOf(odd), func(v reflect.Value) {
		if v.Kind() == reflect.Float64 {
			v.SetFloat(figures[0])
			figures = append(figures[1:], figures[0])
		}
	})
	alter(reflect.ValueOf(none), func(v reflect.Value) { // everything was tried, without a result
		if v.Kind() == reflect.Float64 || v.Kind() == reflect.Int && v.Int() != Version {
			v.SetZero()
		}
	})
	costs.Hazards, costs.Cells, costs.Missing = nil, nil, nil
	costs.Subjects[2] = Subject{Name: "redis", Title: "Redis", URL: "redis://xxxxx@a.rather.long.name.of.a.host.example.org:6379/3", Page: "redis"}
	empty := &Report{Version: Version, Began: time.Unix(0, 0).UTC()}
	return map[string]*Report{"sample": sample(t), "hostile": hostile, "odd": odd, "none": none, "costs": costs, "empty": empty}
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
