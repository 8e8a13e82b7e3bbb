package hazards

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/report"
)

// Every scenario has a script and a stated class, or says why not. IDs are unique. Each hazard covers every subject.
func TestTableIsWhole(t *testing.T) {
	seen := make(map[string]bool)
	subjects, _ := columns()
	for _, s := range table() {
		c := s.Cell
		require.False(t, seen[c.ID()], "%s is there twice", c.ID())
		seen[c.ID()] = true
		if s.NotRun != "" {
			require.Equal(t, scenario{Cell: report.Cell{Hazard: c.Hazard, Subject: c.Subject, NotRun: c.NotRun}}, s, c.ID())
			continue
		}
		require.Contains(t, golden, c.ID())
		require.True(t, s.act != nil && s.Setup != "", c.ID())
		_, err := environment.Named(s.Environment)
		require.NoError(t, err, c.ID())
		require.Equal(t, s.Subject == report.Article, s.Exhibit != "", c.ID())
	}
	for i, h := range Hazards() {
		require.Equal(t, fmt.Sprint("H", i+1), h.ID)
		require.NotEmpty(t, h.Title+h.Happens+h.Do)
		for _, subject := range subjects {
			require.True(t, seen[h.ID+"-"+subject], "%s has nothing for %s", h.ID, subject)
		}
	}
	for id := range golden {
		require.True(t, seen[id], "no scenario makes %s", id)
	}
}

// golden is the stated class of each cell, by ID. The star stands for the subjects.
var golden = func() map[string]report.Class {
	words := map[string]report.Class{"safe": report.Safe, "away": report.Unavailable, "busy": report.Costly, "wrong": report.Misled, "stuck": report.Stuck,
		"fenced": report.Fenced, "UNSAFE": report.Unsafe}
	all := make(map[string]report.Class)
	subjects, _ := columns()
	for row := range strings.Lines(`
		            article file   redis  redlock etcd   zookeeper postgres mysql    table
		H1-*        stuck   safe   safe   safe    safe   safe      safe     safe     safe
		H2-*        stuck   safe   safe   safe    safe   safe      safe     safe     safe
		H3-*        UNSAFE  safe   safe   safe    safe   safe      safe     safe     safe
		H4-*        UNSAFE  -      safe   safe    safe   safe      safe     safe     safe
		H5-*        UNSAFE  -      safe   safe    safe   safe      -        -        safe
		H6-*        UNSAFE  safe   safe   safe    safe   safe      safe     safe     safe
		H7-*        UNSAFE  -      fenced safe    safe   safe      fenced   fenced   fenced
		H8-*        UNSAFE  fenced fenced UNSAFE  safe   safe      safe     safe     safe
		H9-*        UNSAFE  -      fenced UNSAFE  -      -         -        -        fenced
		H10-*       UNSAFE  -      safe   safe    safe   safe      safe     safe     safe
		H11-*       busy    -      safe   safe    safe   safe      safe     safe     safe
		H12-*       wrong   away   away   away    away   away      away     away     away
		H13-*       UNSAFE  fenced fenced UNSAFE  fenced fenced    fenced   fenced   fenced
		H14-*       -       safe   safe   safe    safe   safe      safe     safe     safe
		H15-*       stuck   safe   safe   safe    safe   safe      safe     safe     safe
		H6-*-paused UNSAFE  safe   safe   safe    safe   safe      safe     safe     safe
		H7-redis-replicas-1                      away
		H8-etcd-alone                            UNSAFE
		H8-zookeeper-alone                       UNSAFE
		H8-postgres-behind-a-silent-link         fenced
		H8-mysql-behind-a-silent-link            fenced
		H12-article-an-error-is-taken-for-held   wrong
	`) {
		cells := strings.Fields(row)
		for i, word := range cells[min(1, len(cells)):] {
			if class, known := words[word]; known {
				all[strings.Replace(cells[0], "*", subjects[i], 1)] = class
			}
		}
	}
	return all
}()
