package nats

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/faults"
	"github.com/lockport/lockport/internal/lab/play"
)

// electionTime is how long the others take to elect a leader, and some more.
const electionTime = 12 * time.Second

// atLeader harms the server that leads the bucket, and gives the others time to elect another. Heal restores it.
func atLeader(harm func(c *cluster, n *node) error) play.Act {
	return func(s *play.Phase) {
		c := s.Environment.Servers.(*cluster)
		i := play.Must(c.Leader(s.Ctx))
		s.Injected()
		play.Check(harm(c, c.all[i]))
		s.Wait(electionTime)
	}
}

// Four processes lock and fence while the leader of three servers is killed, stopped and goes on when another leads, and loses its disk.
func TestCells(t *testing.T) {
	r, seed := need(t, three), rand.Uint64()>>16
	for _, c := range []play.Cell{
		{Fault: "leader-killed", Inject: atLeader(func(_ *cluster, n *node) error { return n.Kill() })},
		{Fault: "leader-paused", Inject: atLeader(func(_ *cluster, n *node) error { return n.Freeze() })},
		{Fault: "leader-wiped", Inject: atLeader(func(c *cluster, n *node) error { return c.wipe(t.Context(), n) })},
	} {
		t.Run(c.Fault, func(t *testing.T) {
			c.Outcome, c.Recovery = play.Safe, electionTime
			p, err := play.Play(t.Context(), r, &c, seed)
			require.NoError(t, err, "seed %d", seed)
			v, err := faults.Judge(p)
			require.NoError(t, err)
			require.Empty(t, v.Breaches, "seed %d", seed)
			t.Logf("%d acquisitions, %d losses of which holders were told", v.Figures.Acquisitions, v.Figures.TellingAfter.Quantiles().N)
		})
	}
}
