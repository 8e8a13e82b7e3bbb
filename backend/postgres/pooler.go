package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

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
func (s *server) checkPooler(ctx context.Context, raw *pgconn.PgConn, pid int64) error {
	if s.single.Load() {
		return nil
	}
	refused := fmt.Errorf("%w: %s", driver.ErrRefused, poolerText)
	config, err := s.config(ctx)
	if err != nil {
		return err
	}
	other, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer closeRaw(other)
	ask := func(raw *pgconn.PgConn) (int64, error) {
		patient, cancel := context.WithTimeout(ctx, poolerPatience)
		defer cancel()
		row, err := queryRow(patient, raw, "SELECT pg_backend_pid()", 1)
		if err == nil {
			return row[0], nil
		}
		if patient.Err() != nil && ctx.Err() == nil {
			return 0, refused // it waits for the session that it shares with the other
		}
		return 0, err
	}
	for range poolerRounds {
		if err := run(ctx, other, "BEGIN"); err != nil {
			return err
		}
		theirs, err := ask(other)
		if err != nil {
			return err
		}
		ours, err := ask(raw)
		switch {
		case err != nil:
			return err
		case ours != pid || theirs == pid:
			return refused
		}
		if err := run(ctx, other, "COMMIT"); err != nil {
			return err
		}
	}
	s.single.Store(true)
	return nil
}
