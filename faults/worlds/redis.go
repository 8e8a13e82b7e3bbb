package worlds

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/lockport/lockport/faults"
	"github.com/lockport/lockport/internal/lab/servers"
	"github.com/lockport/lockport/internal/redisscript"

	_ "github.com/lockport/lockport/backend/redis" // its URLs
)

const redisTTL = 2 * time.Second

// redisNotice is within which time the holder of a removed claim is told: by its next renewal.
func redisNotice(ttl time.Duration) time.Duration { return ttl/3 + 100*time.Millisecond }

// Redis is one server, which writes every change to its disk before it acknowledges it.
var Redis = faults.Arrangement{
	Name:          "redis",
	Title:         "one Redis that keeps its data",
	Backend:       "redis",
	TTL:           redisTTL,
	Margin:        marginOf(redisTTL),
	Tokens:        true,
	RemovalNotice: redisNotice(redisTTL),
	Needs:         []string{"redis"},
	Start: func(ctx context.Context) (*faults.World, error) {
		server, err := servers.StartRedis(ctx, servers.RedisOptions{AppendOnly: true, Clock: servers.ClockInstalled() == nil})
		if err != nil {
			return nil, err
		}
		w := &redisServer{server}
		return &faults.World{
			Seat:    func() (*faults.Seat, error) { return seat([]string{server.Addr()}, listURL("redis://", "/0")) },
			Mend:    w.mend,
			Close:   server.Close,
			Log:     server.Log,
			Servers: w,
		}, nil
	},
	Cells: slices.Concat(faults.Common(false), redisServerCells, redisMemoryCells, redisForgetfulCells),
}

// redisServer is the server of a [Redis].
type redisServer struct{ *servers.Redis }

func redisOf(p *faults.Phase) *redisServer { return p.World.Servers.(*redisServer) }

// mend has the server run with the settings that it had at its start. Its clock stays as it is: set right while locks are held, it would
// jump once more.
func (r *redisServer) mend(ctx context.Context) error {
	if err := revive(ctx, []*servers.Redis{r.Redis}); err != nil {
		return err
	}
	if err := r.set(ctx, "maxmemory", 0, "maxmemory-policy", "noeviction", "save", ""); err != nil {
		return err
	}
	return r.savesAgain(ctx)
}

// set sets settings, each a name and a value, until the server is started anew.
func (r *redisServer) set(ctx context.Context, settings ...any) error {
	_, err := r.Do(ctx, append([]any{"CONFIG", "SET"}, settings...)...)
	return err
}

// snapshot is the file to which the server saves its data when it is told to.
func (r *redisServer) snapshot() string { return filepath.Join(r.Dir(), "dump.rdb") }

// savesAgain ends what keeps snapshots from being saved.
func (r *redisServer) savesAgain(ctx context.Context) error {
	if info, err := os.Stat(r.snapshot()); err == nil && info.IsDir() {
		if err := os.Remove(r.snapshot()); err != nil {
			return err
		}
	}
	return r.saves(ctx, "ok")
}

// saves has the server try to save a snapshot, again and again until that ends as status says ("ok", "err").
func (r *redisServer) saves(ctx context.Context, status string) error {
	return eventually(ctx, func(ctx context.Context) error {
		info, err := r.Info(ctx, "persistence")
		if err != nil {
			return err
		}
		if got := info["rdb_last_bgsave_status"]; got != status {
			_, _ = r.Do(ctx, "BGSAVE") // which refuses while it is under way
			return fmt.Errorf("the last snapshot is %q, not %q", got, status)
		}
		return nil
	})
}

// redisKey is the key of a lock on Redis.
func redisKey(name string) string {
	return redisscript.Layout{Prefix: redisscript.DefaultPrefix}.Key(name)
}
