package report

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFindings(t *testing.T) {
	r := &Report{
		Subjects: []Subject{{Name: Article, Title: "an article's lock"}, {Name: "redis", Title: "Redis"}, {Name: "etcd", Title: "etcd"}, {Name: "file", Title: "File"}},
		Hazards:  []Hazard{{ID: "H7", Title: "A fail-over"}, {ID: "H11", Title: "Waiters"}},
		Cells: []Cell{
			{Hazard: "H7", Subject: Article, Class: Unsafe, Seen: 1, Of: 1},
			{Hazard: "H7", Subject: "redis", Class: Fenced, Seen: 1, Of: 1, LateWrite: "refused"},
			{Hazard: "H7", Subject: "redis", Variant: "replicas=1", Class: Unavailable, Seen: 1, Of: 1},
			{Hazard: "H7", Subject: "etcd", Class: Safe, Of: 2},
			{Hazard: "H7", Subject: "etcd", Variant: "paused", Class: Safe, Of: 1, LateWrite: "landed"},
			{Hazard: "H7", Subject: "file", NotRun: "there is no server"},
			{Hazard: "H11", Subject: "redis", Class: Costly, Seen: 2, Of: 3},
			{Hazard: "H11", Subject: Article, Class: Safe, Of: 3},
		},
		Costs: []Costs{
			{Subject: "redis", Cycle: &Cycle{Acquire: Quantiles{N: 9, P50: 85}}, Contention: []Contention{{Overlaps: 1}}},
			{Subject: "etcd", Cycle: &Cycle{Acquire: Quantiles{N: 9, P50: 1240}}, Takeover: &Takeover{Quantiles{N: 1, P50: 2100}}},
		},
	}
	require.Equal(t, []finding{
		{class: Unsafe, text: "On Redis two clients had the lock at one time, once, although nothing was done to it: this is a bug."},
		{class: Fenced, text: "Two believed to hold the lock at one time; the fencing token refused the late write", items: []string{"H7 A fail-over: on Redis (1 of 1 run)"}},
		{class: Costly, text: "Those who waited kept the server busy", items: []string{"H11 Waiters: on Redis (2 of 3 runs)"}},
		{class: Safe, late: true, text: "What an older holder wrote after a newer one had the lock landed all the same", items: []string{"H7 A fail-over: on etcd (paused)"}},
		{text: "Of 2 scenarios with a lock that an article teaches, 1 came to harm", items: []string{"unsafe: 1 (H7)", "safe: 1 (H11)"}},
		{text: "On etcd no harm was seen, in 3 runs. That nothing was seen is no proof that nothing can happen."},
		{text: "While a fault lasted nobody could have a lock on Redis (H7 replicas=1)."},
		{text: "What locks cost on this machine, by medians", items: []string{
			"Acquire, of a lock that nobody else wants: from 85.0 µs on Redis to 1.24 ms on etcd",
			"from the kill of a holder until somebody else has the lock: 2.10 s on etcd",
		}},
	}, r.findings())
	require.Equal(t, "Redis (replicas=1; 1 of 1 run)", r.called(&r.Cells[2], true))
	r.Cells[1].LateWrite = ""
	require.Contains(t, r.findings()[1].text, "; their fencing tokens told them apart", "a refusal that nobody saw is not told")
	require.Empty(t, (&Report{}).findings())
}
