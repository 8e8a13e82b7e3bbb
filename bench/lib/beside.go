package lib

import (
	"context"

	recipe "go.etcd.io/etcd/client/v3/experimental/recipes"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/internal/lab/measure"
	"github.com/lockport/lockport/referee/libraries"
)

// sharing returns the ways to hold one name concurrently: readers, and permits, of which there are enough for all.
func sharing() (all []Library) {
	const permits = 64
	add := func(family, name, how string, open func(context.Context, measure.Config) (measure.Locker, error)) {
		l := Library{Family: family, Name: name, Kind: Variant, Renewal: automatic, How: how, Waits: true, Beside: true, Only: []string{"beside-"}, Open: oneName(open)}
		all = append(all, l)
	}
	for _, family := range []string{"redis", "etcd", "zookeeper", "postgres"} {
		add(family, "lockport, readers", "Acquire with Shared, and Release", besideOthers(lockport.Shared()))
		add(family, "lockport, permits", "Acquire with Permits(64), and Release", besideOthers(lockport.Permits(permits)))
	}
	add("mysql", "lockport, permits", "Acquire with Permits(64), and Release", besideOthers(lockport.Permits(permits)))
	add("etcd", "RWMutex", "RLock and RUnlock of etcd's experimental recipe, on one session", openRWMutexes)
	rw := &all[len(all)-1]
	rw.Kind, rw.Module, rw.Renewal = Theirs, etcdModule, sessionRenewal
	return all
}

func besideOthers(as lockport.AcquireOption) func(context.Context, measure.Config) (measure.Locker, error) {
	return func(ctx context.Context, c measure.Config) (measure.Locker, error) {
		return measure.OpenFor(ctx, c, []lockport.AcquireOption{as})
	}
}

// oneName makes all callers hold the same name, whatever they ask for.
func oneName(open func(context.Context, measure.Config) (measure.Locker, error)) func(context.Context, measure.Config) (measure.Locker, error) {
	return func(ctx context.Context, c measure.Config) (measure.Locker, error) {
		l, err := open(ctx, c)
		acquire := l.Acquire
		l.Acquire = func(ctx context.Context, _ string, wait bool) (measure.Release, error) {
			return acquire(ctx, "beside", wait)
		}
		return l, err
	}
}

// openRWMutexes opens the recipe's readers, which support neither contexts nor single attempts. One session may hold many of them.
func openRWMutexes(_ context.Context, c measure.Config) (l measure.Locker, err error) {
	client, err := libraries.Etcd(c.URL)
	if err != nil {
		return l, err
	}
	s, err := libraries.EtcdSession(client, c.TTL)
	return measure.Locker{Close: client.Close, Acquire: func(_ context.Context, name string, _ bool) (measure.Release, error) {
		m := recipe.NewRWMutex(s, "/bench/"+name)
		return func(context.Context) error { return m.RUnlock() }, m.RLock()
	}}, err
}
