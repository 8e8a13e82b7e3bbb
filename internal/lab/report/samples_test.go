package report

import (
	"encoding/json"
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
	text, err := os.ReadFile("../../../docs/sample/report.json")
	require.NoError(t, err)
	r := new(Report)
	require.NoError(t, json.Unmarshal(text, r))
	some := []string{"H1", "H7", "H11", "H12"}
	r.Hazards = slices.DeleteFunc(r.Hazards, func(h Hazard) bool { return !slices.Contains(some, h.ID) })
	r.Cells = slices.DeleteFunc(r.Cells, func(c Cell) bool { return !slices.Contains(some, c.Hazard) })
	for i, c := range r.Cells {
		r.Cells[i].Runs = c.Runs[:min(2, len(c.Runs))]
	}
	r.Missing = []Missing{{Subject: "postgres", Program: "pgbouncer", Install: "apt-get install pgbouncer"}}
	return r
}

// reports are the sample, and reports of other shapes, with texts that are unlikely but possible.
func reports(t testing.TB) map[string]*Report {
	t.Helper()
	const text = "<script>alert(1)</script> ]]> --> \" ' & </svg></title> {{.}} `x` | [a](b)\x00\x1b[31m\nline two \u202e é 漢字 =1+1"
	hostile, costs := sample(t), sample(t)
	infect(reflect.ValueOf(hostile), text)
	costs.Hazards, costs.Cells, costs.Missing = nil, nil, nil
	costs.Subjects[2] = Subject{Name: "redis", Title: "Redis", URL: "redis://xxxxx@a.rather.long.name.of.a.host.example.org:6379/3", Page: "redis"}
	empty := &Report{Version: Version, Began: time.Unix(0, 0).UTC()}
	return map[string]*Report{"sample": sample(t), "hostile": hostile, "costs": costs, "empty": empty}
}

// infect appends text to each text in v.
func infect(v reflect.Value, text string) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			infect(v.Elem(), text)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			infect(v.Index(i), text)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				infect(v.Field(i), text)
			}
		}
	case reflect.String:
		if v.String() != "" {
			v.SetString(v.String() + text)
		}
	}
}
