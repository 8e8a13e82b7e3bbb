package faults_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/faults"
	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/play"
)

// No two processes lead at once, by their contexts, while leaders are killed, stopped and cut off.
func TestLeaders(t *testing.T) {
	if testing.Short() {
		t.Skip("not run: starts servers")
	}
	t.Parallel()
	common := func(fault string) play.Act {
		all := faults.Common(false)
		return all[slices.IndexFunc(all, func(c play.Cell) bool { return c.Fault == fault })].Script
	}
	lost := func(h *history.History) bool {
		return slices.ContainsFunc(h.Events, func(e history.Event) bool { return e.Kind == history.Released && e.Class == history.ClassLost })
	}
	for _, name := range []string{"redis", "etcd"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := environment.Need(t, name)
			for fault, tt := range map[string]struct {
				script play.Act
				seen   func(h *history.History) bool
			}{
				"killed":  {common("holder-killed"), (*history.History).Contended},
				"stopped": {common("holder-stopped"), (*history.History).Contended},
				"cut off": {play.Storm(cutOffUntil(lost)), lost},
			} {
				t.Run(fault, func(t *testing.T) {
					t.Parallel()
					played, err := play.Play(t.Context(), w, &play.Cell{Fault: fault, Harmless: true, Lead: true, Script: tt.script}, *seedFlag)
					require.NoError(t, err, "-seed=%d", *seedFlag)
					require.Empty(t, played.Stuck)
					h, err := history.NewHistory(played.Events)
					require.NoError(t, err)
					require.True(t, tt.seen(h), "nothing was shown in %d terms", len(h.Spans))
					t.Logf("%d terms in %v", len(h.Spans), h.Since(h.End).Round(time.Millisecond))
					for _, o := range h.Overlaps() {
						t.Error(o.Describe(h))
					}
					for _, f := range h.TokenFaults() {
						t.Error(f.Describe(h))
					}
					if t.Failed() {
						t.Logf("-seed=%d; its history is %s", *seedFlag, keep(t, played))
					}
				})
			}
		})
	}
}

// cutOffUntil cuts off one leader after another, each for longer than the TTL, until seen accepts the history.
func cutOffUntil(seen func(h *history.History) bool) play.Act {
	return func(s *play.Phase) {
		for range 20 {
			w := s.Holder()
			s.Injected()
			w.Endpoint.Links.Each((*faultproxy.Proxy).Cut)
			s.Pause(1.5, 1.5)
			w.Endpoint.Links.Each((*faultproxy.Proxy).Restore)
			if seen(play.Must(history.NewHistory(s.Events()))) {
				return
			}
		}
	}
}
