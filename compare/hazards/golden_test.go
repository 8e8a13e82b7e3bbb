package hazards

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/faults"
	"github.com/lockport/lockport/internal/lab/play"
	"github.com/lockport/lockport/internal/lab/report"
)

// golden is the stated class of each cell, by ID.
var golden = func() map[string]report.Class {
	words := map[string]report.Class{"safe": report.Safe, "away": report.Unavailable, "busy": report.Costly, "wrong": report.Misled, "stuck": report.Stuck,
		"fenced": report.Fenced, "UNSAFE": report.Unsafe}
	all := make(map[string]report.Class)
	for row := range strings.Lines(`
		       article file   redis  redlock etcd   zookeeper postgres mysql    table
		H1     stuck   safe   safe   safe    safe   safe      safe     safe     safe
		H2     stuck   safe   safe   safe    safe   safe      safe     safe     safe
		H3     UNSAFE  safe   safe   safe    safe   safe      safe     safe     safe
		H4     UNSAFE  -      safe   safe    safe   safe      safe     safe     safe
		H5     UNSAFE  -      safe   safe    safe   safe      -        -        safe
		H6     UNSAFE  safe   safe   safe    safe   safe      safe     safe     safe
		H7     UNSAFE  -      fenced safe    safe   safe      fenced   fenced   fenced
		H8     UNSAFE  fenced fenced UNSAFE  safe   safe      safe     safe     safe
		H9     UNSAFE  -      fenced UNSAFE  -      -         -        -        fenced
		H10    UNSAFE  -      safe   safe    safe   safe      safe     safe     safe
		H11    busy    -      safe   safe    safe   safe      safe     safe     safe
		H12    wrong   away   away   away    away   away      away     away     away
		H13    UNSAFE  fenced fenced UNSAFE  fenced fenced    fenced   fenced   fenced
		H14    -       safe   safe   safe    safe   safe      safe     safe     safe
		H15    stuck   safe   safe   safe    safe   safe      safe     safe     safe
		paused UNSAFE  safe   safe   safe    safe   safe      safe     safe     safe
	`) {
		cells := strings.Fields(row)
		for i, subject := range subjects {
			if len(cells) <= len(subjects) || cells[i+1] == "-" {
				continue
			}
			id := cells[0] + "-" + subject
			if cells[0] == "paused" {
				id = "H6-" + subject + "-paused"
			}
			all[id] = words[cells[i+1]]
		}
	}
	for id, word := range map[string]string{
		"H4-article-watch": "safe", "H5-article-thread-id": "UNSAFE", "H7-redis-replicas-1": "away", "H7-redis-sentinel": "fenced",
		"H7-postgres-two-primaries": "fenced", "H7-postgres-two-primaries-and-a-crash": "UNSAFE", "H8-redlock-three-of-five": "UNSAFE", "H8-etcd-alone": "UNSAFE",
		"H8-zookeeper-alone": "UNSAFE", "H8-postgres-behind-a-silent-link": "fenced", "H8-mysql-behind-a-silent-link": "fenced", "H9-redis-set-back": "stuck",
		"H9-redlock-three-of-five": "UNSAFE", "H11-article-every-millisecond": "busy", "H12-article-an-error-is-taken-for-held": "wrong",
	} {
		all[id] = words[word]
	}
	return all
}()

// For the same worker fault, this table and package faults state the same.
func TestGoldenAgreesWithTheFaultRuns(t *testing.T) {
	same := map[string]string{"H2": "holder-killed", "H3": "holder-stopped", "H6": "holder-stopped", "H15": "holder-killed"}
	compared := 0
	for _, e := range faults.All() {
		for hazard, fault := range same {
			subject := e.Name
			if e.Name == "table-postgres" {
				subject = e.Backend
			}
			if stated, ok := golden[hazard+"-"+subject]; ok {
				i := slices.IndexFunc(e.Cells, func(c play.Cell) bool { return c.Fault == fault })
				require.GreaterOrEqual(t, i, 0, "%s has no %s", e.Name, fault)
				require.Equal(t, e.Cells[i].Outcome, stated, "%s on %s", hazard, e.Name)
				compared++
			}
		}
	}
	require.Equal(t, len(same)*len(backends), compared)
}
