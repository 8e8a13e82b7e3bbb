// Package table keeps locks in a table of the database that you already have: Postgres, MariaDB or MySQL, or SQLite, through any driver of database/sql. It needs no
// session, and holds no transaction open: it works behind PgBouncer in transaction mode, RDS Proxy and their like.
//
// # Guarantees
//
//   - Exclusion among all clients of one table, as long as the server keeps what it has committed and its clock is not set forward. A row of the name alone decides.
//   - A hold ends when it was released, or when its TTL has passed since it was set or confirmed, by the server's clock. A holder that the server does not hear from
//     knows that before. A holder whose row is deleted or overwritten is told at its next renewal: within a third of the TTL and 100 ms.
//   - Fencing tokens rise for each name, by the server's clock also where the row was deleted or lost.
//   - A claim is one statement, another one where the name is held; a release is one. 1024 locks are renewed by one statement.
//   - A statement that is repeated, by database/sql or a proxy, is granted once. A claim that was given up is not granted when it arrives late.
//
// # Non-guarantees
//
//   - A fail-over to a replica that has not got the last commits forgets locks that are held. So does a server that answers before its commits are on the disk.
//     A server whose clock is set forward ends locks early. Only the token protects then.
//   - Waiters are served in no order. Each process that waits for a name looks four times a second, and when the holder's TTL ends.
//   - Readers (lockport.Shared), permits (lockport.Permits) and handing over (Lock.Detach) are refused.
//
// # URL
//
// "table+postgres://user:password@host:5432/database", "table+mysql://user:password@host:3306/database", "table+sqlite:///path/of/the/file". The program must import
// the driver: github.com/jackc/pgx/v5/stdlib, github.com/go-sql-driver/mysql, modernc.org/sqlite. Parameters: ttl, table, create, and those of the driver.
//
// # Server requirements
//
// PostgreSQL 12, MariaDB 10.5, MySQL 8.0 or SQLite 3.35, or newer; the table, which is made on request alone (CreateTable, Schema, create=true in a URL); the rights SELECT,
// INSERT, UPDATE and DELETE on it.
package table
