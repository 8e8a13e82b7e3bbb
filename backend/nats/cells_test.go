package nats

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/faults"
	"github.com/lockport/lockport/internal/lab/play"
	"github.com/lockport/lockport/internal/lab/report"
)

// Four processes lock and fence while the leader of three servers is killed, is paused until another leads, or loses its disk.
func TestCells(t *testing.T) {
	t.Parallel()
	r, seed := three.Need(t), rand.Uint64()>>16
	for fault, harm := range map[string]func(c *cluster, i int) error{
		"leader-killed": func(c *cluster, i int) error { return c.Nodes()[i].Kill() },
		"leader-paused": func(c *cluster, i int) error { return c.Nodes()[i].Freeze() },
		"leader-wiped":  func(c *cluster, i int) error { _, err := c.LoseDisk(t.Context(), i); return err },
	} {
		t.Run(fault, func(t *testing.T) {
			p, err := play.Play(t.Context(), r, &play.Cell{Fault: fault, Outcome: report.Safe, Script: play.Storm(func(s *play.Phase) {
				c := s.Environment.Servers.(*cluster)
				i := play.Must(c.Leader(s.Ctx))
				s.Injected()
				play.Check(harm(c, i))
				play.Must(c.Leader(s.Ctx)) // the next leader
			})}, seed)
			require.NoError(t, err, "seed %d", seed)
			v, err := faults.Judge(p)
			require.NoError(t, err)
			require.Empty(t, v.Breaches, "seed %d", seed)
			t.Logf("%d acquisitions", len(v.History.Spans))
		})
	}
}
