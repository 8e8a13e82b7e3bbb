package mysql

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/servers"
)

// claims makes b claim names.
func claims(t testing.TB, b *Backend, owner string, names ...string) []driver.Lease {
	t.Helper()
	var all []driver.Lease
	for _, name := range names {
		l, err := b.TryAcquire(t.Context(), driver.Request{Name: name, Owner: owner, TTL: b.server.o.TTL})
		require.NoError(t, err)
		all = append(all, l)
	}
	return all
}

func TestInspectSaysWhoHasALock(t *testing.T) {
	m := servers.NeedMariaDB(t, servers.MariaDBOptions{})
	a, b := newBackend(t, m, Options{}), newBackend(t, m, Options{})
	name, owner := newName(), newOwner()
	l := claims(t, a, owner, name)[0]
	st, err := b.Inspect(t.Context(), name)
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), st.Since, time.Minute)
	st.Since = time.Time{}
	require.Equal(t, driver.Status{Name: name, Held: true, Owner: owner, Token: l.Grant().Token, Waiters: -1}, st)

	// A session that took the same number after a restart, and the same lock, is not taken for the one in the row.
	require.NoError(t, l.Release(t.Context()))
	foreign, err := adminOf(t, m).Conn(t.Context())
	require.NoError(t, err)
	defer func() { _ = foreign.Close() }()
	key, err := a.server.layout.key(name)
	require.NoError(t, err)
	var got, id int
	require.NoError(t, foreign.QueryRowContext(t.Context(), "SELECT GET_LOCK(?,0),CONNECTION_ID()", string(key)).Scan(&got, &id))
	require.Equal(t, 1, got)
	_, err = foreign.ExecContext(t.Context(), "UPDATE lockport_fence SET session=?", id)
	require.NoError(t, err)
	st, err = b.Inspect(t.Context(), name)
	require.NoError(t, err)
	require.Equal(t, driver.Status{Name: name, Held: true, Owner: fmt.Sprint("connection:", id), Foreign: true, Waiters: -1}, st)
	all, err := b.List(t.Context(), name)
	require.NoError(t, err)
	require.Empty(t, all)
}

// TestLookingMakesNothing: who looks needs no more than to read, and finds nothing where no client of lockport has been.
func TestLookingMakesNothing(t *testing.T) {
	m := servers.NeedMariaDB(t, servers.MariaDBOptions{})
	admin, b := adminOf(t, m), newBackend(t, m, Options{})
	name := newName()
	st, err := b.Inspect(t.Context(), name)
	require.NoError(t, err)
	require.Equal(t, driver.Status{Name: name, Waiters: -1}, st)
	all, err := b.List(t.Context(), "")
	require.NoError(t, err)
	require.Empty(t, all)
	var tables int
	require.NoError(t, admin.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_NAME=?", defaultTable).Scan(&tables))
	require.Zero(t, tables)

	claims(t, newBackend(t, m, Options{}), newOwner(), name)
	exec(t, admin, "UPDATE %s SET at=at - INTERVAL 1 YEAR", defaultTable)
	exec(t, admin, "INSERT INTO %s VALUES ('old',1,'old','',0,'',NOW() - INTERVAL 1 YEAR)", defaultTable)
	all, err = b.List(t.Context(), "")
	require.NoError(t, err)
	require.Len(t, all, 1)
	var rows int
	require.NoError(t, admin.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM "+defaultTable).Scan(&rows))
	require.Equal(t, 2, rows, "old rows are for those to delete who claim")
}

func TestListReadsATableOfAnySize(t *testing.T) {
	m := servers.NeedMariaDB(t, servers.MariaDBOptions{})
	a, b := newBackend(t, m, Options{}), newBackend(t, m, Options{})
	base := newName()
	exec(t, adminOf(t, m), createFence, defaultTable)
	exec(t, adminOf(t, m), "INSERT INTO lockport_fence SELECT SHA2(seq,256),1,'%s','',0,'',NOW() FROM seq_1_to_%d", base, 2*listPage+1)
	claims(t, a, newOwner(), base+"a", base+"b", base+"\x00'c")
	all, err := b.List(t.Context(), base)
	require.NoError(t, err)
	require.Len(t, all, 3)
	_, err = newBackend(t, m, Options{NoTokens: true}).List(t.Context(), base)
	require.ErrorIs(t, err, errors.ErrUnsupported)
}

func TestWithoutTokensTheSessionIsTheOwner(t *testing.T) {
	m := servers.SharedMariaDB(t)
	a, b := newBackend(t, m, Options{NoTokens: true}), newBackend(t, m, Options{NoTokens: true})
	name := newName()
	l := claims(t, a, newOwner(), name)[0]
	require.Zero(t, l.Grant().Token)
	st, err := b.Inspect(t.Context(), name)
	require.NoError(t, err)
	require.Equal(t, fmt.Sprint("connection:", holderOf(t, m, name)), st.Owner)
	require.True(t, st.Foreign, "whose session it is cannot be known")
	var shared *driver.SharedSessionError
	require.ErrorAs(t, b.Break(t.Context(), name, st.Owner), &shared)
	require.Equal(t, -1, shared.Others, "which locks it has cannot be known")
	require.NotZero(t, holderOf(t, m, name))
	require.NoError(t, b.BreakSession(t.Context(), name, st.Owner))
	require.Zero(t, holderOf(t, m, name))
}

// TestBreakSessionEndsAllItsLocks, but only while the owner has the one that is named.
func TestBreakSessionEndsAllItsLocks(t *testing.T) {
	m := servers.SharedMariaDB(t)
	a, b := newBackend(t, m, Options{}), newBackend(t, m, Options{})
	first, second, owner := newName(), newName(), newOwner()
	leases := claims(t, a, owner, first, second)
	require.ErrorIs(t, b.BreakSession(t.Context(), first, newOwner()), driver.ErrLost)
	require.NotZero(t, holderOf(t, m, first))
	require.NoError(t, leases[0].Release(t.Context()))
	require.ErrorIs(t, b.BreakSession(t.Context(), first, owner), driver.ErrLost)
	require.NotZero(t, holderOf(t, m, second))
	claims(t, a, owner, first)
	require.NoError(t, b.BreakSession(t.Context(), first, owner))
	require.Zero(t, holderOf(t, m, first))
	require.Zero(t, holderOf(t, m, second))
}

// TestNoSessionIsKilledThatHasTheLockNoMore: it may have given it up since it was looked at, and have other locks.
func TestNoSessionIsKilledThatHasTheLockNoMore(t *testing.T) {
	m := servers.SharedMariaDB(t)
	a, b := newBackend(t, m, Options{}), newBackend(t, m, Options{})
	first, second, owner := newName(), newName(), newOwner()
	leases := claims(t, a, owner, first, second)
	thread := int64(holderOf(t, m, first))
	require.NoError(t, leases[0].Release(t.Context()))
	key, err := b.server.layout.key(first)
	require.NoError(t, err)
	require.ErrorIs(t, b.end(t.Context(), key, thread), driver.ErrLost)
	require.EqualValues(t, thread, holderOf(t, m, second))
}

// TestBreakEndsNoOtherLock: it kills a session, and so refuses where that has other locks.
func TestBreakEndsNoOtherLock(t *testing.T) {
	m := servers.SharedMariaDB(t)
	a, b := newBackend(t, m, Options{}), newBackend(t, m, Options{})
	first, second, owner := newName(), newName(), newOwner()
	leases := claims(t, a, owner, first, second)
	err := b.Break(t.Context(), first, owner)
	require.ErrorIs(t, err, driver.ErrRefused)
	require.ErrorContains(t, err, "1 other lock")
	var shared *driver.SharedSessionError
	require.ErrorAs(t, err, &shared)
	require.Equal(t, driver.SharedSessionError{Session: fmt.Sprint("connection ", holderOf(t, m, first)), Others: 1, Names: []string{second}}, *shared)
	require.ErrorIs(t, b.Break(t.Context(), first, newOwner()), driver.ErrLost)
	require.NotZero(t, holderOf(t, m, first))
	require.NoError(t, leases[1].Release(t.Context()))
	require.NoError(t, b.Break(t.Context(), first, owner))
	require.Zero(t, holderOf(t, m, first))
	require.ErrorIs(t, b.Break(t.Context(), first, owner), driver.ErrLost)

	// Its own session's.
	claims(t, b, owner, first)
	require.NoError(t, b.Break(t.Context(), first, owner))
	require.Zero(t, holderOf(t, m, first))
}

// TestBreakIsAimedAtTheOwner: the lock may change hands between the look at it and the look at what else its session has.
func TestBreakIsAimedAtTheOwner(t *testing.T) {
	m := servers.SharedMariaDB(t)
	a, b := newBackend(t, m, Options{}), newBackend(t, m, Options{})
	name, owner := newName(), newOwner()
	claims(t, a, owner, name)
	key, err := a.server.layout.key(name)
	require.NoError(t, err)
	thread, others, err := b.othersOf(t.Context(), key, owner, false)
	require.NoError(t, err)
	require.EqualValues(t, holderOf(t, m, name), thread)
	require.Nil(t, others)
	thread, _, err = b.othersOf(t.Context(), key, newOwner(), false)
	require.NoError(t, err)
	require.Zero(t, thread)
}

// withoutKill is a connection that is cut by the statement KILL, before the server has it.
type withoutKill struct{ net.Conn }

func (w withoutKill) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("KILL ")) {
		_ = w.Close()
		return 0, net.ErrClosed
	}
	return w.Conn.Write(p)
}

// TestBreakThatIsLostEnds: although the context does not.
func TestBreakThatIsLostEnds(t *testing.T) {
	m := servers.SharedMariaDB(t)
	a := newBackend(t, m, Options{})
	cfg := configFor(t, m.DSN())
	cfg.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dialPlain(ctx, network, address)
		return withoutKill{c}, err
	}
	b, err := NewBackend(cfg, Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, b.Close()) }()
	name, owner := newName(), newOwner()
	claims(t, a, owner, name)
	done := make(chan error, 1)
	go func() { done <- b.Break(context.WithoutCancel(t.Context()), name, owner) }()
	select {
	case err := <-done:
		require.ErrorIs(t, err, driver.ErrUnknown)
	case <-time.After(endTime + within):
		t.Fatal("it waits for the end of a session that was not killed")
	}
	require.NotZero(t, holderOf(t, m, name))
}

// TestBreakCountsLocksHeldForLong: for longer than rows of locks that nobody takes are kept.
func TestBreakCountsLocksHeldForLong(t *testing.T) {
	m := servers.NeedMariaDB(t, servers.MariaDBOptions{})
	a, b := newBackend(t, m, Options{}), newBackend(t, m, Options{})
	long, short, owner := newName(), newName(), newOwner()
	claims(t, a, owner, long)
	exec(t, adminOf(t, m), "UPDATE lockport_fence SET at=at-INTERVAL %d HOUR", int(keepRows.Hours())+1)
	claims(t, a, owner, short)
	dialFor(t, b.server) // which prunes
	require.ErrorIs(t, b.Break(t.Context(), short, owner), driver.ErrRefused)
	require.NotZero(t, holderOf(t, m, long))
}

// TestBreakOfAForeignHolder: where the server shows which locks there are, MariaDB by a plugin, it is known whether the session has others.
func TestBreakOfAForeignHolder(t *testing.T) {
	m := servers.NeedMariaDB(t, servers.MariaDBOptions{Settings: map[string]string{"plugin-load-add": "metadata_lock_info"}})
	db := adminOf(t, m)
	b, err := NewBackend(configFor(t, m.AdminDSN()), Options{ExactKeys: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, b.Close()) }()
	foreign, err := db.Conn(t.Context())
	require.NoError(t, err)
	defer func() { _ = foreign.Close() }()
	_, err = foreign.ExecContext(t.Context(), "DO GET_LOCK('one',0),GET_LOCK('two',0)")
	require.NoError(t, err)
	st, err := b.Inspect(t.Context(), "one")
	require.NoError(t, err)
	err = b.Break(t.Context(), "one", st.Owner)
	require.ErrorIs(t, err, driver.ErrRefused)
	var shared *driver.SharedSessionError
	require.ErrorAs(t, err, &shared)
	require.Equal(t, 1, shared.Others)
	require.Equal(t, []string{"two"}, shared.Names)
	_, err = foreign.ExecContext(t.Context(), "DO RELEASE_LOCK('two')")
	require.NoError(t, err)
	require.NoError(t, b.Break(t.Context(), "one", st.Owner))
	st, err = b.Inspect(t.Context(), "one")
	require.NoError(t, err)
	require.False(t, st.Held)
}
