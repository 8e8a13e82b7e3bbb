package mysql

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/lab/servers"
)

func request(b *Backend, name string) driver.Request {
	return (&peer.Peer{TTL: b.server.o.TTL}).Request(name)
}

func TestInspectSaysWhoHasALock(t *testing.T) {
	m := servers.NeedMariaDB(t, servers.MariaDBOptions{})
	a, b := backendFor(t, m, Options{}), backendFor(t, m, Options{})
	name := newName()
	require.Equal(t, driver.Status{Name: name, Waiters: -1}, peer.Shows(t, b, name), "the table is missing")
	require.Empty(t, peer.Lists(t, b, ""))
	require.NoError(t, peer.Takes(t, b, request(b, name)).Release(t.Context()))
	exec(t, adminOf(t, m), "UPDATE lockport_fence SET at=at-INTERVAL 1 DAY")
	req := request(a, name)
	l := peer.Takes(t, a, req)
	st := peer.Shows(t, b, name)
	require.WithinDuration(t, time.Now(), st.Since, time.Minute)
	st.Since = time.Time{}
	require.Equal(t, driver.Status{Name: name, Held: true, Owner: req.Owner, Token: l.Grant().Token, Waiters: -1}, st)

	// After a restart, another session with the same id and lock is not taken for the one in the row.
	require.NoError(t, l.Release(t.Context()))
	foreign := adminOf(t, m)
	foreign.SetMaxOpenConns(1)
	require.EqualValues(t, 1, ask(t, foreign, "GET_LOCK('%s',0)", keyOf(name)))
	id := ask(t, foreign, "CONNECTION_ID()")
	exec(t, foreign, "UPDATE lockport_fence SET session=%d", id)
	require.Equal(t, driver.Status{Name: name, Held: true, Owner: fmt.Sprint("connection:", id), Foreign: true, Waiters: -1}, peer.Shows(t, b, name))
	require.Empty(t, peer.Lists(t, b, name))
}

// TestPermitsAreListedTogether: a name has one entry, with all its holders. Those of the same name with another prefix are not listed.
func TestPermitsAreListedTogether(t *testing.T) {
	b, name := backendFor(t, servers.SharedMariaDB(t), Options{}), newName()
	for range 2 {
		peer.Takes(t, b, peer.Permit(request(b, name), 3))
	}
	peer.Takes(t, backendFor(t, servers.SharedMariaDB(t), Options{Prefix: "other:"}), request(b, name))
	all := peer.Lists(t, b, name)
	require.Len(t, all, 1)
	require.Equal(t, -1, all[0].Permits)
	require.Len(t, all[0].Others, 1)
}

func TestWithoutTokensTheSessionIsTheOwner(t *testing.T) {
	m := servers.SharedMariaDB(t)
	a, b := backendFor(t, m, Options{NoTokens: true}), backendFor(t, m, Options{NoTokens: true})
	name := newName()
	require.Zero(t, peer.Takes(t, a, request(a, name)).Grant().Token)
	st := peer.Shows(t, b, name)
	require.Equal(t, fmt.Sprint("connection:", holderOf(t, m, name)), st.Owner)
	require.True(t, st.Foreign, "the session's owner cannot be known")
	require.ErrorIs(t, peer.ErrOf(b.List(t.Context(), name)), errors.ErrUnsupported)
	var shared *driver.SharedSessionError
	require.ErrorAs(t, b.Break(t.Context(), name, st.Owner), &shared)
	require.Equal(t, -1, shared.Others, "the session's locks cannot be known")
	require.NotZero(t, holderOf(t, m, name))
	require.NoError(t, b.BreakSession(t.Context(), name, st.Owner))
	require.Zero(t, holderOf(t, m, name))
}

// TestBreak: Break refuses to kill a session that has other locks, and names them.
func TestBreak(t *testing.T) {
	m := servers.SharedMariaDB(t)
	a, b := backendFor(t, m, Options{}), backendFor(t, m, Options{})
	first, second := newName(), newName()
	req := request(a, first)
	peer.Takes(t, a, req)
	other := peer.Takes(t, a, request(a, second))
	err := b.Break(t.Context(), first, req.Owner)
	peer.SaysOneLine(t, err, driver.ErrRefused, "other locks (1)")
	var shared *driver.SharedSessionError
	require.ErrorAs(t, err, &shared)
	require.Equal(t, driver.SharedSessionError{Session: fmt.Sprint("connection ", holderOf(t, m, first)), Others: 1, Names: []string{second}}, *shared)
	require.NotZero(t, holderOf(t, m, first))
	require.NoError(t, other.Release(t.Context()))
	require.NoError(t, b.Break(t.Context(), first, req.Owner))
	require.Zero(t, holderOf(t, m, first))
}

// TestBreakIsAimedAtTheOwner: the lock may change hands at any moment before the session is killed.
func TestBreakIsAimedAtTheOwner(t *testing.T) {
	m := servers.SharedMariaDB(t)
	p, db := tapFor(t, m.DSN()+"?autocommit=0") // one snapshot for all statements
	a, b := backendFor(t, m, Options{}), backendOn(t, db, Options{})
	for _, before := range []string{"SELECT id,session", "KILL"} {
		req := request(a, newName())
		lease, other := peer.Takes(t, a, req), peer.Takes(t, a, request(a, newName()))
		p.on(func(query string) error {
			if strings.HasPrefix(query, before) {
				require.NoError(t, lease.Release(t.Context()))
				if before != "KILL" {
					peer.Takes(t, a, request(a, req.Name))
				}
			}
			return nil
		})
		require.ErrorIs(t, b.BreakSession(t.Context(), req.Name, req.Owner), driver.ErrLost, before)
		require.NoError(t, other.Release(t.Context()), "Break ended a later holder's session")
	}
}
