package table

// Dialect is the SQL that a server speaks.
type Dialect int

// The dialects.
const (
	Postgres Dialect = iota // PostgreSQL 12 or newer
	MySQL                   // MariaDB 10.5, MySQL 8.0, or newer
	SQLite                  // SQLite 3.35 or newer
)

// dialect is what differs between servers.
type dialect struct {
	// words are pairs: a word in braces, and what it stands for in statements. That may have words in it.
	words []string
	// take takes a name, and bury makes sure that a claim cannot take it later. Both lock the row of the name, so that they follow each other.
	take, bury string
	// notices asks which of the risks there are.
	notices string
	// refused are the codes of errors, or their classes of two characters, that stay until somebody changes something; undone those after which trying again may help. The
	// statement has had no effect. What is neither may have had one. The first one says that there is no such table.
	refused, undone string
}

const (
	// take inserts the row, or takes it over where the name is free. A claim that has it already keeps its token: a proxy may repeat statements.
	// It writes nothing where somebody else has the name.
	take = `INSERT INTO {table} AS l (name, owner, token, since, expires, abandoned, abandoned_at)
SELECT :name{cast}, :owner{cast}, {now}, {now}, {now} + :ttl, '', 0
WHERE NOT EXISTS (SELECT 1 FROM {table} WHERE name = :name AND owner NOT IN ('', :owner) AND expires > {now})
ON CONFLICT (name) DO UPDATE SET
token = CASE WHEN {mine} THEN l.token ELSE {greatest}(l.token + 1, excluded.token) END,
since = CASE WHEN {mine} THEN l.since ELSE excluded.since END,
owner = excluded.owner, expires = excluded.expires
WHERE (l.owner IN ('', :owner) OR l.expires <= {now}) AND {find}(l.abandoned, :id) = 0
RETURNING token`

	bury = `INSERT INTO {table} AS l (name, owner, token, since, expires, abandoned, abandoned_at)
VALUES (:name, '', 0, 0, {now}, :id, {now})
ON CONFLICT (name) DO UPDATE SET
owner = CASE WHEN l.owner = :owner THEN '' ELSE l.owner END,
abandoned = {last}(CASE WHEN l.abandoned_at < {now} - 60000000 THEN '' ELSE l.abandoned END || excluded.abandoned, {most}),
abandoned_at = excluded.abandoned_at`

	// MySQL returns no rows of an insert, but the argument of LAST_INSERT_ID: the token, or 0 where somebody else has the name. It assigns from left to right,
	// and what follows sees what was assigned: so owner and expires come last.
	takeMySQL = `INSERT INTO {table} (name, owner, token, since, expires, abandoned, abandoned_at)
VALUES (:name, :owner, LAST_INSERT_ID({now}), {now}, {now} + :ttl, '', 0)
ON DUPLICATE KEY UPDATE
token = IF({mine}, LAST_INSERT_ID(token), IF({free}, LAST_INSERT_ID(GREATEST(token + 1, VALUES(token))), token + LAST_INSERT_ID(token * 0))),
since = IF({free} AND NOT {mine}, VALUES(since), since),
owner = IF({free}, VALUES(owner), owner),
expires = IF({free} OR owner = :owner, VALUES(expires), expires)`

	buryMySQL = `INSERT INTO {table} (name, owner, token, since, expires, abandoned, abandoned_at)
VALUES (:name, '', 0, 0, {now}, :id, {now})
ON DUPLICATE KEY UPDATE
owner = IF(owner = :owner, '', owner),
abandoned = RIGHT(CONCAT(IF(abandoned_at < {now} - 60000000, '', abandoned), VALUES(abandoned)), {most}),
abandoned_at = VALUES(abandoned_at)`
)

// schema makes the table. Its layout is shared with other releases and other programs: a change is one of major version.
const schema = "CREATE TABLE IF NOT EXISTS {table} (name {key} NOT NULL PRIMARY KEY, owner {owner} NOT NULL, token bigint NOT NULL, since bigint NOT NULL, " +
	"expires bigint NOT NULL, abandoned text{ascii} NOT NULL, abandoned_at bigint NOT NULL){engine}"

var dialects = [...]dialect{
	Postgres: {
		words: []string{"{key}", "text", "{owner}", "text", "{ascii}", "", "{engine}", "", "{greatest}", "greatest", "{find}", "strpos", "{last}", "right", "{most}", "32000",
			"{now}", "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint", "{mine}", "l.owner = :owner AND l.expires > {now}", "{cast}", "::text"},
		take: take, bury: bury,
		notices: "SELECT 'durability' WHERE 'off' IN (current_setting('synchronous_commit'), current_setting('fsync')) UNION ALL " +
			"SELECT 'replication' WHERE EXISTS (SELECT 1 FROM pg_stat_replication WHERE sync_state NOT IN ('sync', 'quorum'))",
		refused: "42P01 42 28 3D 22 0A 25006 26000", undone: "23 40001 40P01 53 55P03 57P03", // https://www.postgresql.org/docs/current/errcodes-appendix.html
	},
	MySQL: {
		words: []string{"{key}", "varbinary(2048)", "{owner}", "varbinary(256)", "{ascii}", " CHARACTER SET ascii", "{engine}", " ENGINE=InnoDB", "{find}", "INSTR", "{most}", "32000",
			"{now}", "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))", "{mine}", "(owner = :owner AND expires > {now})",
			"{free}", "(INSTR(abandoned, :id) = 0 AND (owner IN ('', :owner) OR expires <= {now}))"},
		take: takeMySQL, bury: buryMySQL,
		notices: "SELECT 'durability' FROM DUAL WHERE @@GLOBAL.innodb_flush_log_at_trx_commit <> 1 UNION ALL " +
			"SELECT 'replication' FROM DUAL WHERE EXISTS (SELECT 1 FROM information_schema.PROCESSLIST WHERE COMMAND LIKE 'Binlog Dump%')",
		// https://mariadb.com/kb/en/mariadb-error-code-reference/
		refused: "1146 1054 1142 1143 1044 1045 1698 1130 1049 1046 1290 1836 1064", undone: "1205 1213 1020 1040 1203",
	},
	SQLite: {
		words: []string{"{key}", "text", "{owner}", "text", "{ascii}", "", "{engine}", "", "{greatest}", "max", "{find}", "instr", "{last}", "substr", "{most}", "-32000",
			"{now}", "CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)", "{mine}", "l.owner = :owner AND l.expires > {now}", "{cast}", ""},
		take: take, bury: bury,
		notices: "SELECT 'durability' FROM pragma_synchronous WHERE synchronous = 0",
		refused: "1 8 14 26", undone: "5 6 13", // https://www.sqlite.org/rescode.html
	},
}
