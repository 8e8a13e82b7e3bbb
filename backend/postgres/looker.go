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
	Held  int64  `json:"h,omitempty"` // for so many milliseconds
	Last  bool   `json:"l,omitempty"` // there is no lock in this one: the session has said all
}

// status is what the report says, with what the server says of those who wait.
func (r report) status(waiters int) driver.Status {
	since := time.Now().Add(-time.Duration(r.Held) * time.Millisecond)
	return driver.Status{Name: r.Name, Held: true, Owner: r.Owner, Token: r.Token, Since: since, Waiters: waiters}
}

// seen is a lock as the server shows it.
type seen struct {
	pid         int64
	application string
	key         int64
	shared      bool // as only foreign clients have it
}

// ours says that it is a session of a lockport client, who can be asked.
func (h seen) ours() bool { return strings.HasPrefix(h.application, "lockport") }

// owner is what stands for the owner of a lock whose holder cannot be asked, or does not answer.
func (h seen) owner() string {
	owner := fmt.Sprintf("pid %d (%s)", h.pid, oneLine(h.application))
	if h.shared {
		owner += ", in shared mode"
	}
	return owner
}

// status is what is known of the lock without its holder's answer.
func (h seen) status(name string, waiters int) driver.Status {
	return driver.Status{Name: name, Held: true, Owner: h.owner(), Foreign: !h.ours(), Waiters: waiters}
}

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
		if h.ours() && !l.silent[h.pid] {
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
