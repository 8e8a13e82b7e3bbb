// Package table provides locks in a table of the database you already run: Postgres, MariaDB, MySQL or SQLite, through any database/sql driver.
// It needs no session and holds no transaction open, so it works behind PgBouncer in transaction mode. RDS Proxy and ProxySQL were not tried.
//
// # Guarantees
//
//   - Exclusion among all clients of one table, while the server keeps its commits and its clock is not set forward. One row per name decides.
//   - A hold ends at its release, or when its TTL has passed since it was set or confirmed, by the server's clock. A holder cut off from the
//     server knows that before. A holder whose row is deleted or overwritten is told at its next renewal: within a third of the TTL and 100 ms.
//   - Fencing tokens rise for each name; the server's clock keeps them rising if the row was deleted or lost.
//   - A claim is one statement, or two if the name is held; a release is one. One statement renews 1024 locks.
//   - A statement repeated by database/sql or a proxy is granted once. An abandoned claim that arrives late is not granted.
//
// # Non-guarantees
//
//   - A fail-over to a replica that lacks the last commits forgets held locks. So does a crash of a server that answers before its commits
//     are on disk. If the server's clock is set forward, locks end early. Only the token protects then.
//   - If Options.Table has no schema, SET search_path or USE left on a pooled connection may lead to another table, with other holders.
//   - A transaction that keeps a row locked ends the row's lock. On MariaDB and MySQL it ends every lock of the client.
//     On SQLite, any transaction that keeps the file locked ends all locks.
//   - Waiters are served in no order. A waiting process polls four times a second, and when the holder's TTL ends.
//   - Readers (lockport.Shared), permits (lockport.Permits) and Lock.Detach are refused.
//
// # URL
//
// "table+postgres://user:password@host:5432/database", "table+mysql://user:password@host:3306/database", "table+sqlite:///path/of/the/file".
// The program must import the driver: github.com/jackc/pgx/v5/stdlib, github.com/go-sql-driver/mysql or modernc.org/sqlite. Parameters:
// ttl, table, create, and those of the driver.
//
// # Server requirements
//
// PostgreSQL 12, MariaDB 10.5, MySQL 8.0 or SQLite 3.35, or newer. The table, which is created only on request (CreateTable, Schema, or
// create=true in a URL). The rights SELECT, INSERT, UPDATE and DELETE on it. On Postgres, a database with the encoding UTF8.
package table
