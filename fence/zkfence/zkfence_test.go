package zkfence

import (
	"context"
	"crypto/rand"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/backend/zookeeper"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/fence"
	"github.com/lockport/lockport/internal/lab/fencetest"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/lab/servers"
)

// The promises of all fences.
func TestCases(t *testing.T) {
	p := newPlace(t)
	path := func(name string) string { return "/fences/of/" + name }
	fencetest.Cases(t, fencetest.Subject{
		Place:  fencetest.Place{Store: p.server.Addr(), Locks: p.server.URL()},
		Errors: errs, Addr: p.server.Addr(),
		Layout: "%020d",
		Text:   func(name string) string { return strings.Join(p.tokens(path(name)), " ") },
		Remove: func(name string) {
			for _, token := range p.tokens(path(name)) {
				require.NoError(t, p.conn.Delete(path(name)+"/"+token, -1))
			}
			require.NoError(t, p.conn.Delete(path(name), -1))
		},
		Beside: true,
		Odd:    []string{"5", "x", "00000000000000000000", "0000000000000000005x", "99999999999999999999"},
		Put: func(name, odd string) {
			require.NoError(t, peer.ErrOf(p.conn.Create(path(name)+"/"+odd, nil, 0, zk.WorldACL(zk.PermAll))))
		},
	})
}

// A multi keeps its own responses.
func TestMulti(t *testing.T) {
	p := newPlace(t)
	ctx := t.Context()
	registers(t, p.fence, 5)
	require.Equal(t, "00000000000000000005", p.get(p.fence.Path()))
	for _, other := range []string{"3", "9", "4"} { // registered by nobody: the greatest counts, until a greater one
		require.NoError(t, peer.ErrOf(p.conn.Create(p.fence.Path()+"/0000000000000000000"+other, nil, 0, zk.WorldACL(zk.PermAll))))
	}
	errs.Stale(t, peer.ErrOf(p.fence.Register(ctx, 8)), 8, 9)
	g := registers(t, p.fence, 10)
	require.Equal(t, []string{"00000000000000000010"}, p.tokens(p.fence.Path()))
	r := peer.Must(g.Multi(ctx,
		&zk.CreateRequest{Path: p.data + "/x", Acl: zk.WorldACL(zk.PermAll), Flags: zk.FlagSequence}, &zk.SetDataRequest{Path: p.data, Data: []byte("1"), Version: 0}))(t)
	require.Len(t, r, 2)
	require.Equal(t, []any{p.data + "/x0000000000", int32(1)}, []any{r[0].String, r[1].Stat.Version})

	r, err := g.Multi(ctx, &zk.SetDataRequest{Path: p.data, Data: []byte("2"), Version: 1}, &zk.SetDataRequest{Path: p.data, Data: []byte("3"), Version: 1})
	errs.OneLine(t, err, "", zk.ErrBadVersion)
	require.NotErrorIs(t, err, fence.ErrStale, "the caller's own condition does not concern the fence")
	require.Len(t, r, 2)
	require.ErrorIs(t, r[1].Error, zk.ErrBadVersion)
	for _, op := range []any{&zk.DeleteRequest{Path: p.data + "/x0000000000", Version: 7}, &zk.CheckVersionRequest{Path: p.data, Version: 7}} {
		errs.OneLine(t, peer.ErrOf(g.Multi(ctx, op)), "", zk.ErrBadVersion)
	}
	_, err = g.Set(ctx, p.data+"/missing", nil, -1)
	require.ErrorIs(t, err, zk.ErrNoNode)
	require.NotErrorIs(t, err, fence.ErrStale)
	errs.OneLine(t, peer.ErrOf(g.Multi(ctx, "nonsense")), "operation type string")
	require.Empty(t, peer.Must(g.Multi(ctx))(t))
	require.EqualValues(t, 2, peer.Must(g.Set(ctx, p.data, []byte("4"), 1))(t).Version)
	require.Equal(t, "4", p.get(p.data))
}

// A write that outlives its call writes the value that it was called with.
func TestLateWriteKeepsItsValue(t *testing.T) {
	p := newPlace(t)
	proxy := peer.Proxy(t, p.server.Addr())
	g := registers(t, peer.Must(New(newConn(t, proxy.Addr()), p.fence.Path(), Options{}))(t), 5)
	proxy.Cut()
	value := []byte("first")
	peer.Until(t, func() bool { // the library keeps the request while it pauses between attempts to connect
		return errors.Is(peer.ErrOf(g.Set(peer.Within(t, 50*time.Millisecond), p.data, value, -1)), context.DeadlineExceeded)
	})
	copy(value, "other")
	proxy.Restore()
	require.Eventually(t, func() bool { return p.get(p.data) != "" }, 2*peer.Soon, time.Millisecond)
	require.Equal(t, "first", p.get(p.data))
}

// A lock whose claim was abandoned, as after an unconfirmed release, registers nothing.
func TestLockThatWasUndone(t *testing.T) {
	p := newPlace(t)
	b := peer.Must(zookeeper.NewBackend(p.conn, zookeeper.Options{TTL: 10 * time.Second, TickTime: 100 * time.Millisecond}))(t)
	l := peer.Holds(t, peer.Client(t, b), rand.Text())
	require.NoError(t, b.Abandon(t.Context(), driver.Request{Name: l.Name(), Owner: peer.Shows(t, b, l.Name()).Owner, TTL: 10 * time.Second}))
	errs.OneLine(t, peer.ErrOf(p.fence.RegisterLock(t.Context(), l)), "", lockport.ErrLost, fence.ErrStale)
}

func TestErrors(t *testing.T) {
	p := newPlace(t)
	for answer, class := range map[error]error{
		zk.ErrConnectionClosed: driver.ErrUnknown, zk.ErrClosing: driver.ErrUnknown, zk.ErrSessionExpired: driver.ErrUnknown,
		context.Canceled: driver.ErrUnknown, context.DeadlineExceeded: driver.ErrUnknown, zk.ErrNoServer: driver.ErrUnavailable,
	} {
		errs.OneLine(t, p.fence.explain("write", answer), "", answer, class)
	}
	require.ErrorContains(t, peer.ErrOf(New(nil, "/x", Options{})), "nil")
	for _, path := range []string{"", "/", "x", "/x/", "/x//y", "/zookeeper", "/zookeeper/x"} {
		require.ErrorContains(t, peer.ErrOf(New(p.conn, path, Options{})), "path", path)
	}
	errs.OneLine(t, peer.ErrOf(peer.Must(New(p.conn, "/x/../y", Options{}))(t).Register(t.Context(), 5)), "", zk.ErrInvalidPath)
	require.NoError(t, peer.ErrOf(p.conn.Create(p.data+"/brief", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))))
	errs.OneLine(t, peer.ErrOf(peer.Must(New(p.conn, p.data+"/brief/fence", Options{}))(t).Register(t.Context(), 5)), "", zk.ErrNoChildrenForEphemerals)
}

func TestACL(t *testing.T) {
	p := newPlace(t)
	require.NoError(t, p.conn.AddAuth("digest", []byte("app:secret")))
	f := peer.Must(New(p.conn, "/private/fence", Options{ACL: zk.AuthACL(zk.PermAll)}))(t)
	require.NoError(t, write(t.Context(), registers(t, f, 5), p.data, "x"))
	stranger := newConn(t, p.server.Addr())
	registers(t, peer.Must(New(stranger, p.fence.Path(), Options{}))(t), 5) // another fence
	_, err := peer.Must(New(stranger, "/private/fence", Options{}))(t).Register(t.Context(), 6)
	errs.OneLine(t, err, "ACL", zk.ErrNoAuth)
	require.NotContains(t, err.Error(), "secret")
	blind := peer.Must(New(p.conn, p.data+"/blind", Options{ACL: zk.WorldACL(zk.PermAll &^ zk.PermRead)}))(t)
	errs.OneLine(t, peer.ErrOf(blind.Register(t.Context(), 5)), "ACL", zk.ErrNoAuth) // a fence that was just created is read too
}

// What a lagging server tells a holder counts only if the leader confirms it.
func TestEnsemble(t *testing.T) {
	e := servers.NeedEnsemble(t, servers.ZooKeeperOptions{})
	conn := newConn(t, e.Addrs()...)
	require.NoError(t, peer.ErrOf(conn.Create("/data", nil, 0, zk.WorldACL(zk.PermAll))))
	fences := make([]*Fence, len(e.Addrs()))
	for i, addr := range e.Addrs() {
		fences[i] = peer.Must(New(newConn(t, addr), "/fence", Options{}))(t)
	}
	var latest *Guard
	for token := lockport.Token(1); token < 60; token++ {
		f := fences[int(token)%len(fences)]
		g := registers(t, f, token)
		require.NoError(t, write(t.Context(), g, "/data", strconv.Itoa(int(token))))
		require.Equal(t, strconv.Itoa(int(token)), (&place{t: t, conn: f.conn}).get("/data"))
		if latest != nil {
			require.ErrorIs(t, write(t.Context(), latest, "/data", "late"), fence.ErrStale)
			require.ErrorIs(t, peer.ErrOf(latest.fence.Register(t.Context(), latest.Token())), fence.ErrStale)
		}
		latest = g
	}

	// A server that is cut off keeps answering for a while, with old data.
	leader := peer.Must(e.Leader(t.Context()))(t)
	cut := (leader + 1) % len(fences)
	old := registers(t, fences[cut], 100)
	e.CutFromQuorum(cut)
	defer e.Join()
	newer := registers(t, fences[leader], 101)
	ctx := peer.Within(t, time.Second)
	require.Error(t, peer.ErrOf(fences[cut].Register(ctx, old.Token())), "a newer holder has registered")
	require.Error(t, write(ctx, old, "/data", "late"))
	require.NoError(t, write(t.Context(), newer, "/data", "new"))
}
