package worlds

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/faults"
)

// The same as TestMend, for what can be done to servers of Redis.
func TestMendRedis(t *testing.T) {
	if testing.Short() {
		t.Skip("not run: starts servers")
	}
	by := func(s step) func(*testing.T, *faults.Phase) {
		return func(t *testing.T, p *faults.Phase) { require.NoError(t, s(t.Context(), p)) }
	}
	full := func(t *testing.T, p *faults.Phase) {
		require.NoError(t, redisOf(p).set(t.Context(), "maxmemory-policy", "allkeys-lru", "maxmemory", 1))
	}
	mendsAll(t, &Redis, damages{"down": by(redisKilled), "still": by(redisFrozen), "cannot save": by(redisCannotSave), "full": full})
	master := func(p *faults.Phase) process { return redisPairIn(p).master }
	promoted := func(t *testing.T, p *faults.Phase) { require.NoError(t, redisPairIn(p).promote(t.Context())) }
	mendsAll(t, &RedisReplicas, damages{
		"master down": down(master), "master still": still(master), "replica down": by(redisReplicaKilled), "link cut": by(redisLinkCut), "promoted": promoted,
	})
	one := func(p *faults.Phase) process { return redlockOf(p).nodes[0] }
	mendsAll(t, &Redlock, damages{"down": down(one), "still": still(one)})
	sentinel := func(p *faults.Phase) process { return sentinelOf(p).Sentinels[0] }
	node := func(p *faults.Phase) process { return sentinelOf(p).Nodes[0] }
	mendsAll(t, &RedisSentinel, damages{"sentinel down": down(sentinel), "sentinel still": still(sentinel), "node down": down(node), "node still": still(node)})
}
