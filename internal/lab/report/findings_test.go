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
			{Subject: "redis", Cycle: &Cycle{Acquire: Quantiles{N: 9, P50: 85}}, Contention: []Contention{{Clients: 8, Overlaps: 1}}},
			{Subject: "etcd", Cycle: &Cycle{Acquire: Quantiles{N: 9, P50: 1240}}, Takeover: &Takeover{Quantiles{N: 1, P50: 2100}}},
		},
	}
	require.Equal(t, []finding{
		{Class: Unsafe, Text: "On Redis two of 8 clients held the lock at once, 1 time, although nothing was done to it: this is a bug."},
		{Class: Fenced, Text: "Two clients believed they held the lock at once; the fencing token told them apart", Items: []string{"H7 A fail-over: on Redis (1 of 1 run)"}},
		{Class: Costly, Text: "Waiting clients kept the server busy", Items: []string{"H11 Waiters: on Redis (2 of 3 runs)"}},
		{Class: Safe, Late: true, Text: "A write by an older holder landed after a newer one had the lock", Items: []string{"H7 A fail-over: on etcd (paused; 0 of 1 run)"}},
		{Text: "Of 2 scenarios with a lock from an article, 1 came to harm."},
	}, r.findings())
	require.Empty(t, (&Report{}).findings())
}
