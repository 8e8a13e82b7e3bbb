package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lockport/lockport/driver"
)

// poolerRounds is how often a pooler is tried, and poolerPatience for how long each time: one that has no other session to give lets a
// transaction wait.
const (
	poolerRounds   = 3
	poolerPatience = 2 * time.Second
)

// checkPooler finds out what a pooler does that is in between: the process id that it gave for the session is not the server's. One that gives
// sessions away between two transactions hands ours, while nothing is asked on it, to another connection that begins one, or changes it under us.
func (s *server) checkPooler(ctx context.Context, c *pgx.Conn, pid int64) error {
	if s.single.Load() {
		return nil
	}
	other, err := s.open(ctx)
	if err != nil {
		return err
	}
	defer other.close()
	return other.use(func(o *pgx.Conn) error { return s.compare(ctx, c, pid, o) })
}

// compare looks whether the pooler lets the session of c, whose process is pid, serve o too.
func (s *server) compare(ctx context.Context, c *pgx.Conn, pid int64, o *pgx.Conn) error {
	refused := fmt.Errorf("%w: %s", driver.ErrRefused, poolerText)
	ask := func(c *pgx.Conn) (pid int64, err error) {
		patient, cancel := context.WithTimeout(ctx, poolerPatience)
		defer cancel()
		err = c.QueryRow(patient, "SELECT pg_backend_pid()::bigint", once).Scan(&pid)
		if err != nil && patient.Err() != nil && ctx.Err() == nil {
			return 0, refused // it waits for the session that it shares with the other
		}
		return pid, err
	}
	for range poolerRounds {
		if err := run(ctx, o, "BEGIN"); err != nil {
			return err
		}
		theirs, err := ask(o)
		if err != nil {
			return err
		}
		ours, err := ask(c)
		switch {
		case err != nil:
			return err
		case ours != pid || theirs == pid:
			return refused
		}
		if err := run(ctx, o, "COMMIT"); err != nil {
			return err
		}
	}
	s.single.Store(true)
	return nil
}
