package hazards

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/faults"
	"github.com/lockport/lockport/internal/lab/play"
	"github.com/lockport/lockport/internal/lab/report"
)

// golden is what is stated of each cell.
var golden = func() map[string]report.Class {
	all := make(map[string]report.Class)
	for _, part := range []map[string]report.Class{goldenWorkers, goldenServers, goldenFull} {
		for id, class := range part {
			all[id] = class
		}
	}
	return all
}()

// goldenWorkers are the hazards that come from workers and their network. Every backend is safe from them, and no article's lock is.
var goldenWorkers = func() map[string]report.Class {
	all := map[string]report.Class{
		"H1-article": report.Stuck, "H2-article": report.Stuck, "H3-article": report.Unsafe, "H4-article": report.Unsafe, "H5-article": report.Unsafe,
		"H6-article": report.Unsafe, "H6-article-paused": report.Unsafe, "H15-article": report.Stuck,
		"H4-article-watch": report.Safe, "H5-article-thread-id": report.Unsafe,
	}
	for _, subject := range subjects[1:] {
		for _, hazard := range []string{"H1", "H2", "H3", "H4", "H5", "H6", "H14", "H15"} {
			all[hazard+"-"+subject] = report.Safe
		}
		all["H6-"+subject+"-paused"] = report.Safe
	}
	for _, cannot := range []string{"H4-file", "H5-file", "H5-postgres", "H5-mysql"} {
		delete(all, cannot)
	}
	return all
}()

// What is stated here of the workers' hazards is what faults states where it has the same fault.
func TestGoldenAgreesWithTheFaultRuns(t *testing.T) {
	same := map[string]string{"H2": "holder-killed", "H3": "holder-stopped", "H6": "holder-stopped", "H15": "holder-killed"}
	compared := 0
	for _, a := range faults.All() {
		for _, at := range standing {
			if at.subject != a.Name {
				continue
			}
			for hazard, fault := range same {
				i := slices.IndexFunc(a.Cells, func(c play.Cell) bool { return c.Fault == fault })
				require.GreaterOrEqual(t, i, 0, "%s has no %s", a.Name, fault)
				require.Equal(t, a.Cells[i].Outcome.IsSafe(), golden[hazard+"-"+at.subject] == report.Safe, "%s on %s", hazard, at.subject)
				compared++
			}
		}
	}
	require.Equal(t, len(same)*len(standing), compared)
}
