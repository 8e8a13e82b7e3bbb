package sqlfence_test

import (
	"context"
	"errors"
	"strings"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/fence/sqlfence"
	"github.com/lockport/lockport/internal/lab/fencetest"
)

// open opens a store in the table account, with a fence beside it. target is "pgx", "postgres" or "mysql", a space and the database's address.
func open(ctx context.Context, target string) (*fencetest.Store, error) {
	kind, target, _ := strings.Cut(target, " ")
	d, err := openDoor(kind, target)
	if err != nil {
		return nil, err
	}
	f, err := sqlfence.New(d.dialect, "")
	if err != nil {
		return nil, err
	}
	write := func(ctx context.Context, name string, value int64, guard func(tx session) error) error {
		return d.do(ctx, func(tx session) error {
			if err := guard(tx); err != nil {
				return err
			}
			return tx.exec(ctx, writeAccount[d.dialect], value, name)
		})
	}
	return &fencetest.Store{
		Register: func(ctx context.Context, name string, token lockport.Token, _ *lockport.Lock) (fencetest.Write, error) {
			err := d.register(ctx, f, name, token)
			if err == nil {
				err = d.exec(ctx, makeAccount[d.dialect], name)
			}
			return func(ctx context.Context, value int64) error {
				return write(ctx, name, value, func(tx session) error { return tx.guard(ctx, f, name, token) })
			}, err
		},
		Bare: func(ctx context.Context, name string, value int64) error {
			return write(ctx, name, value, func(session) error { return nil })
		},
		Get: func(ctx context.Context, name string) (value int64, err error) {
			if err = d.exec(ctx, makeAccount[d.dialect], name); err == nil {
				err = d.db.QueryRowContext(ctx, readAccount[d.dialect], name).Scan(&value)
			}
			return value, err
		},
		Close: d.close,
	}, errors.Join(d.exec(ctx, createAccount[d.dialect]), d.exec(ctx, f.Schema()))
}

// The tables and statements of the numbers. makeAccount adds a missing row.
var (
	createAccount = map[sqlfence.Dialect]string{
		sqlfence.Postgres: "CREATE TABLE IF NOT EXISTS account (id text PRIMARY KEY, balance bigint NOT NULL)",
		sqlfence.MySQL:    "CREATE TABLE IF NOT EXISTS account (id VARCHAR(200) PRIMARY KEY, balance BIGINT NOT NULL) ENGINE=InnoDB",
	}
	makeAccount = map[sqlfence.Dialect]string{
		sqlfence.Postgres: "INSERT INTO account (id, balance) VALUES ($1, 0) ON CONFLICT DO NOTHING",
		sqlfence.MySQL:    "INSERT IGNORE INTO account (id, balance) VALUES (?, 0)",
	}
	readAccount = map[sqlfence.Dialect]string{
		sqlfence.Postgres: "SELECT balance FROM account WHERE id = $1",
		sqlfence.MySQL:    "SELECT balance FROM account WHERE id = ?",
	}
	writeAccount = map[sqlfence.Dialect]string{
		sqlfence.Postgres: "UPDATE account SET balance = $1 WHERE id = $2",
		sqlfence.MySQL:    "UPDATE account SET balance = ? WHERE id = ?",
	}
)
