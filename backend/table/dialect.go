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
	words      []string // pairs: a word in braces, and what it stands for in statements. That may have words in it.
	mark       string   // the placeholder of the n-th argument
	schema     string   // makes the table
	take, bury string   // take takes a name, and bury makes sure that a claim cannot take it later. Both lock the row of the name, so that they follow each other.
	notices    string   // asks which of the risks there are
}

const (
	// take inserts the row, or takes it over where the name is free. A claim that has it already keeps its token: a proxy may repeat statements.
	// It writes nothing where somebody else has the name.
	take = `INSERT INTO {table} AS l (name, owner, token, since, expires, abandoned, abandoned_at)
SELECT :name, :owner, {now}, {now}, {now} + :ttl, '', 0
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
expires = IF(owner = :owner, VALUES(expires), expires)`

	buryMySQL = `INSERT INTO {table} (name, owner, token, since, expires, abandoned, abandoned_at)
VALUES (:name, '', 0, 0, {now}, :id, {now})
ON DUPLICATE KEY UPDATE
owner = IF(owner = :owner, '', owner),
abandoned = RIGHT(CONCAT(IF(abandoned_at < {now} - 60000000, '', abandoned), VALUES(abandoned)), {most}),
abandoned_at = VALUES(abandoned_at)`

	// The layout is shared with other releases and other programs: a change is one of major version.
	schema = "CREATE TABLE IF NOT EXISTS {table} (name text NOT NULL PRIMARY KEY, owner text NOT NULL, token bigint NOT NULL, since bigint NOT NULL, " +
		"expires bigint NOT NULL, abandoned text NOT NULL, abandoned_at bigint NOT NULL)"

	schemaMySQL = "CREATE TABLE IF NOT EXISTS {table} (name varbinary(2048) NOT NULL PRIMARY KEY, owner varbinary(256) NOT NULL, token bigint NOT NULL, since bigint NOT NULL, " +
		"expires bigint NOT NULL, abandoned text CHARACTER SET ascii NOT NULL, abandoned_at bigint NOT NULL) ENGINE=InnoDB"
)

var dialects = [...]dialect{
	Postgres: {
		words: []string{"{greatest}", "greatest", "{find}", "strpos", "{last}", "right", "{most}", "32000",
			"{now}", "CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)", "{mine}", "l.owner = :owner AND l.expires > {now}"},
		schema: schema, mark: "$n", take: take, bury: bury,
		notices: "SELECT 'durability' WHERE 'off' IN (current_setting('synchronous_commit'), current_setting('fsync')) UNION ALL " +
			"SELECT 'replication' WHERE EXISTS (SELECT 1 FROM pg_stat_replication WHERE sync_state NOT IN ('sync', 'quorum'))",
	},
	MySQL: {
		words: []string{"{find}", "INSTR", "{most}", "32000",
			"{now}", "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))", "{mine}", "(owner = :owner AND expires > {now})",
			"{free}", "(INSTR(abandoned, :id) = 0 AND (owner IN ('', :owner) OR expires <= {now}))"},
		schema: schemaMySQL, mark: "?", take: takeMySQL, bury: buryMySQL,
		notices: "SELECT 'durability' FROM DUAL WHERE @@GLOBAL.innodb_flush_log_at_trx_commit <> 1 UNION ALL " +
			"SELECT 'replication' FROM DUAL WHERE EXISTS (SELECT 1 FROM information_schema.PROCESSLIST WHERE COMMAND LIKE 'Binlog Dump%')",
	},
	SQLite: {
		words: []string{"{greatest}", "max", "{find}", "instr", "{last}", "substr", "{most}", "-32000",
			"{now}", "CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)", "{mine}", "l.owner = :owner AND l.expires > {now}"},
		schema: schema, mark: "?", take: take, bury: bury,
		notices: "SELECT 'durability' FROM pragma_synchronous WHERE synchronous = 0",
	},
}
