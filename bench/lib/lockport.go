package lib

import (
	"context"
	"strings"
	"time"

	"github.com/lockport/lockport"
	_ "github.com/lockport/lockport/backend/all"
	"github.com/lockport/lockport/conformance/library"
	"github.com/lockport/lockport/internal/lab/measure"
	"github.com/lockport/lockport/referee/libraries"
)

// with is how lockport is opened. The URLs of our servers have no parameters.
type with struct {
	scheme, parameters string // around a URL
	options            []lockport.Option
	hold               []lockport.AcquireOption
}

func (w with) open(ctx context.Context, rawURL string, ttl time.Duration) (library.Client, error) {
	return measure.Open(ctx, w.scheme+rawURL+w.parameters, ttl, w.hold, w.options...)
}

func ours() (all []Library) {
	add := func(families, name, how string, w with, only ...string) {
		for family := range strings.FieldsSeq(families) {
			all = append(all, Library{
				Family: family, Name: name, Kind: libraries.Either(name == "lockport", Ours, Variant), How: how, Beside: w.hold != nil, Only: only, Open: w.open,
			})
		}
	}
	const servers = "redis redlock etcd zookeeper postgres mysql nats"
	add(servers, "lockport", "Acquire and Release", with{})
	add("file", "lockport", "Acquire and Release", with{}, "handoff-same", "takeover")
	const table = "?create=true&sslmode=disable&default_query_exec_mode="
	add("table", "lockport", "Acquire and Release of table+postgres, with prepared statements, pgx's default",
		with{scheme: "table+", parameters: table + "cache_statement"})
	add("table", "lockport, behind a pooler", "the same without prepared statements, the default for a URL",
		with{scheme: "table+", parameters: table + "exec"}, "cycle", "own-")
	add("mysql", "lockport, no tokens", "the same with tokens=false: no row is written for a token", with{parameters: "?tokens=false"}, "cycle", "own-")
	add(servers, "lockport, no hand-off", "the same with WithoutHandOff: the server grants every hold",
		with{options: []lockport.Option{lockport.WithoutHandOff()}}, "contend-")
	add("redis etcd zookeeper postgres", "lockport, readers", "Acquire with Shared, and Release",
		with{hold: []lockport.AcquireOption{lockport.Shared()}}, "beside-")
	add("redis etcd zookeeper postgres mysql", "lockport, permits", "Acquire with Permits(64), and Release",
		with{hold: []lockport.AcquireOption{lockport.Permits(64)}}, "beside-") // enough for all
	return all
}
