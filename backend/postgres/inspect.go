package postgres

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/lockport/lockport/driver"
)

// askTime is for how long the clients whose sessions hold locks are waited for when they are asked for whom they hold them.
const askTime = 2 * time.Second

// lookAgainTime is after what time without an answer it is looked whether those who are asked have ended.
const lookAgainTime = 100 * time.Millisecond

// looker is a connection on which somebody looks at locks. What the server knows of them is a session and a key; name, owner and token are known to the
// client that holds them, which is asked by notification, and answers on the looker's own channel.
type looker struct {
	raw      *pgconn.PgConn
	channel  string
	patience time.Duration // askTime
	answers  []report
	silent   map[int64]bool // sessions that were asked and have not said all
}

// report is what a client says of a lock, in JSON.
type report struct {
	PID   int64  `json:"p"`
	Name  string `json:"n,omitempty"`
	Owner string `json:"o,omitempty"`
	Token uint64 `json:"t,omitempty"`
	Last  bool   `json:"l,omitempty"` // there is no lock in this one: the session has said all
}

// seen is a lock as the server shows it.
type seen struct {
	pid         int64
	application string
}

// ours says that it is a session of a lockport client, who can be asked.
func (h seen) ours() bool { return strings.HasPrefix(h.application, "lockport") }

// owner is what stands for the owner of a lock whose holder cannot be asked, or does not answer.
func (h seen) owner() string { return fmt.Sprintf("pid %d (%s)", h.pid, oneLine(h.application)) }

// lookAtLocks opens a connection to look at locks, and runs f with it. It returns soon after ctx ends.
func (s *server) lookAtLocks(ctx context.Context, f func(ctx context.Context, l *looker) error) error {
	done := make(chan error, 1)
	go func() {
		l := &looker{channel: "lockport_" + strings.ToLower(rand.Text()), patience: askTime, silent: make(map[int64]bool)}
		raw, _, err := s.connect(context.WithValue(ctx, lookerKey{}, l))
		if err == nil {
			l.raw = raw
			err = f(ctx, l)
			closeRaw(raw)
		}
		if err != nil {
			err = classify(err)
		}
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%w: no answer of the server: %w", driver.ErrUnavailable, context.Cause(ctx))
	}
}

// lookerKey is how a looker is told what comes on its connection.
type lookerKey struct{}

// notified takes an answer.
func (l *looker) notified(_ *pgconn.PgConn, n *pgconn.Notification) {
	var r report
	if n.Channel != l.channel || json.Unmarshal([]byte(n.Payload), &r) != nil || r.PID != int64(n.PID) {
		return
	}
	if r.Last {
		delete(l.silent, r.PID)
	} else {
		l.answers = append(l.answers, r)
	}
}

// ask asks sessions for the locks whose names start with prefix, or for the one on key, and returns when all have answered, or did not in time.
func (l *looker) ask(ctx context.Context, sessions []seen, question string) error {
	inTime, cancel := context.WithTimeout(ctx, l.patience)
	defer cancel()
	var sql strings.Builder
	sql.WriteString("LISTEN " + l.channel)
	for _, h := range sessions {
		if h.ours() {
			l.silent[h.pid] = true
			fmt.Fprintf(&sql, "; SELECT pg_notify(%s, %s)", quote(channel), quote(fmt.Sprintf("q%s %d %s", l.channel, h.pid, question)))
		}
	}
	if len(l.silent) == 0 {
		return nil
	}
	if err := run(ctx, l.raw, sql.String()); err != nil {
		return err
	}
	for len(l.silent) > 0 && inTime.Err() == nil {
		soon, stop := context.WithTimeout(inTime, lookAgainTime)
		err := l.raw.WaitForNotification(soon)
		if soon.Err() != nil {
			err = l.forgetEnded(ctx)
		}
		stop()
		if err != nil {
			return err
		}
	}
	return nil
}

// forgetEnded forgets those who have not answered and are not there any more.
func (l *looker) forgetEnded(ctx context.Context) error {
	var pids []string
	for pid := range l.silent {
		pids = append(pids, strconv.FormatInt(pid, 10))
	}
	results, err := l.raw.Exec(ctx, `SELECT p FROM unnest('{`+strings.Join(pids, ",")+`}'::int[]) AS p WHERE NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = p)`).ReadAll()
	if err != nil || len(results) != 1 {
		return errors.Join(err)
	}
	for _, row := range results[0].Rows {
		if pid, err := strconv.ParseInt(string(row[0]), 10, 64); err == nil {
			delete(l.silent, pid)
		}
	}
	return nil
}

// sessions are those that hold key, and how many wait for it.
func (l *looker) sessions(ctx context.Context, key int64) (holders []seen, waiting int, err error) {
	hi, lo := side(key)
	results, err := l.raw.Exec(ctx, fmt.Sprintf(`SELECT l.pid, coalesce(a.application_name, ''), (l.granted AND l.objsubid = 1 AND l.mode = 'ExclusiveLock')::int
		FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
		WHERE l.locktype = 'advisory' AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
		AND (l.objsubid = 1 AND l.classid = %d AND l.objid = %d OR l.objsubid = 2 AND l.classid = %d AND l.objid = %d)`,
		uint32(key>>32), uint32(key), uint32(hi), uint32(lo))).ReadAll()
	if err != nil || len(results) != 1 {
		return nil, 0, errors.Join(err)
	}
	for _, row := range results[0].Rows {
		if string(row[2]) != "1" {
			waiting++
			continue
		}
		pid, err := strconv.ParseInt(string(row[0]), 10, 64)
		if err != nil {
			return nil, 0, err
		}
		holders = append(holders, seen{pid, string(row[1])})
	}
	return holders, waiting, nil
}

// status says who holds name, and on which session.
func (l *looker) status(ctx context.Context, name string, key int64) (driver.Status, seen, error) {
	st := driver.Status{Name: name}
	holders, waiting, err := l.sessions(ctx, key)
	if st.Waiters = waiting; err != nil || len(holders) == 0 {
		return st, seen{}, err
	}
	h := holders[0]
	if err := l.ask(ctx, holders[:1], strconv.FormatInt(key, 10)); err != nil {
		return st, h, err
	}
	st.Held, st.Foreign, st.Owner = true, !h.ours(), h.owner()
	for _, a := range l.answers {
		if a.Name == name {
			st.Owner, st.Token = a.Owner, a.Token
		}
	}
	if len(l.answers) == 0 && h.ours() && !l.silent[h.pid] { // it has given it back meanwhile, or has ended
		return driver.Status{Name: name, Waiters: waiting}, h, nil
	}
	return st, h, nil
}

// Inspect implements driver.Inspector. The holder is asked for owner and token: one that does not answer within 2 s, or is no client of lockport, is shown
// as its process id and application_name. A transaction-scoped lock is that of a foreign client.
func (b *Backend) Inspect(ctx context.Context, name string) (st driver.Status, err error) {
	key, err := b.layout.key(name)
	if err != nil {
		return driver.Status{}, err
	}
	var found driver.Status
	err = b.server.lookAtLocks(ctx, func(ctx context.Context, l *looker) (err error) {
		found, _, err = l.status(ctx, name, key)
		return err
	})
	if err != nil {
		return driver.Status{}, err
	}
	return found, nil
}

// List implements driver.Inspector. A key does not say its name, so all clients that hold locks are asked. Not seen are locks of foreign clients, of one that does
// not answer within 2 s (it is stopped, or cut off, and its session ends with the TTL), and names that are waited for and held by nobody.
func (b *Backend) List(ctx context.Context, prefix string) ([]driver.Status, error) {
	var all []driver.Status
	err := b.server.lookAtLocks(ctx, func(ctx context.Context, l *looker) error {
		results, err := l.raw.Exec(ctx, `SELECT DISTINCT l.pid, a.application_name FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
			WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND l.granted AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
			AND a.application_name LIKE 'lockport%'`).ReadAll()
		if err != nil || len(results) != 1 {
			return errors.Join(err)
		}
		var sessions []seen
		for _, row := range results[0].Rows {
			pid, _ := strconv.ParseInt(string(row[0]), 10, 64)
			sessions = append(sessions, seen{pid, string(row[1])})
		}
		if err := l.ask(ctx, sessions, "*"+prefix); err != nil {
			return err
		}
		for _, a := range l.answers {
			if !strings.HasPrefix(a.Name, prefix) {
				continue
			}
			all = append(all, driver.Status{Name: a.Name, Held: true, Owner: a.Owner, Token: a.Token, Waiters: -1})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// Break implements driver.Breaker. All that the server can end is a session, and with it all its locks: it is refused where there are others.
func (b *Backend) Break(ctx context.Context, name, owner string) error {
	key, err := b.layout.key(name)
	if err != nil {
		return err
	}
	return b.server.lookAtLocks(ctx, func(ctx context.Context, l *looker) error {
		st, h, err := l.status(ctx, name, key)
		switch {
		case err != nil:
			return err
		case !st.Held || st.Owner != owner:
			return fmt.Errorf("%w: %s no longer holds it", driver.ErrLost, owner)
		}
		row, err := queryRow(ctx, l.raw, fmt.Sprintf(`SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1 AND pid = %d
			AND NOT (classid = %d AND objid = %d)`, h.pid, uint32(key>>32), uint32(key)), 1)
		switch {
		case err != nil:
			return err
		case row[0] > 0:
			return fmt.Errorf("%w: the holder's session has %d other locks, which would be lost with it: end process %d, or have the server do so (pg_terminate_backend)",
				driver.ErrRefused, row[0], h.pid)
		}
		return l.terminate(ctx, h.pid, key)
	})
}

// terminate ends the session pid if it has key now: since it was looked at, another may have got the key, or the number.
func (l *looker) terminate(ctx context.Context, pid, key int64) error {
	row, err := queryRow(ctx, l.raw, fmt.Sprintf(`SELECT coalesce(sum(pg_terminate_backend(pid, 2000)::int), -1)::int FROM pg_locks
		WHERE locktype = 'advisory' AND granted AND objsubid = 1 AND mode = 'ExclusiveLock' AND pid = %d AND classid = %d AND objid = %d
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`, pid, uint32(key>>32), uint32(key)), 1)
	switch {
	case err != nil:
		return err
	case row[0] < 0:
		return fmt.Errorf("%w: the holder's session no longer has it", driver.ErrLost)
	case row[0] == 0:
		return fmt.Errorf("%w: the holder's session does not end", driver.ErrUnknown)
	}
	return nil
}
