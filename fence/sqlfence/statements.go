package sqlfence

import "fmt"

// Schema is the statement that creates the table, for a migration. It does nothing if the table is there. Whoever guards needs the privileges SELECT,
// INSERT and UPDATE on it. Rows are never removed by themselves; delete that of a name when what it guards is gone, and no holder is left.
func (f *Fence) Schema() string {
	if f.dialect == Postgres {
		// Bytes, not text, in whatever encoding and order the database has. Every guarded transaction makes a new version of
		// the row: room for it on the same page spares the index.
		return fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s (name bytea PRIMARY KEY, token bigint NOT NULL) WITH (fillfactor = 50)", f.table)
	}
	// A primary key, since a unique index would be locked with the gap before the row. Bytes, since text would take "a", "A" and "a " for one.
	return fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s (name VARBINARY(1024) NOT NULL PRIMARY KEY, token BIGINT NOT NULL) ENGINE=InnoDB", f.table)
}

// statements are those that register and read.
func statements(d Dialect, table string) (guard, seen string) {
	if d == Postgres {
		// It writes the row also when the token is the same: under REPEATABLE READ and SERIALIZABLE a transaction that has
		// its snapshot from before another one's guard then fails, instead of working on old data.
		return fmt.Sprintf("INSERT INTO %s AS f (name, token) VALUES ($1::bytea, $2::bigint) "+
			"ON CONFLICT (name) DO UPDATE SET token = GREATEST(f.token, EXCLUDED.token) RETURNING f.token", table), ""
	}
	// LAST_INSERT_ID(x) has the server return x with its acknowledgement. Reading what the statement left needs a locking read: a plain one would come
	// from the transaction's snapshot where the token was the same, and nothing was written.
	return fmt.Sprintf("INSERT INTO %s (name, token) VALUES (?, ?) ON DUPLICATE KEY UPDATE token = LAST_INSERT_ID(GREATEST(token, ?))", table),
		fmt.Sprintf("SELECT token FROM %s WHERE name = ? FOR UPDATE", table)
}
