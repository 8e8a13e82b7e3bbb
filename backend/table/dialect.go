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
	// number begins a placeholder that has a number; empty: placeholders are question marks, in the order of the arguments.
	number string
	// refused are the codes of errors, or their beginnings, that stay until somebody changes something, with what to do; undone those after which trying again may
	// help. The statement has had no effect. What is neither may have had one.
	refused map[string]string
	undone  string
}

const (
	// take inserts the row, or takes it over where the name is free. A claim that has it already keeps its token: a proxy may repeat statements.
	// It writes nothing where somebody else has the name.
	take = `INSERT INTO {table} AS l (name, owner, token, since, expires, abandoned, abandoned_at)
SELECT {name}, {owner}, {now}, {now}, {now} + :ttl, '', 0
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

var dialects = [...]dialect{
	Postgres: {
		words: []string{"{schema}", "(name text PRIMARY KEY, owner text NOT NULL, token bigint NOT NULL, since bigint NOT NULL, " +
			"expires bigint NOT NULL, abandoned text NOT NULL, abandoned_at bigint NOT NULL)",
			"{now}", "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint", "{mine}", "l.owner = :owner AND l.expires > {now}",
			"{greatest}", "greatest", "{find}", "strpos", "{last}", "right", "{most}", "32000", "{name}", ":name::text", "{owner}", ":owner::text"},
		take: take, bury: bury, number: "$",
		notices: "SELECT 'durability' WHERE 'off' IN (current_setting('synchronous_commit'), current_setting('fsync')) UNION ALL " +
			"SELECT 'replication' WHERE EXISTS (SELECT 1 FROM pg_stat_replication WHERE sync_state NOT IN ('sync', 'quorum'))",
		// https://www.postgresql.org/docs/current/errcodes-appendix.html
		refused: map[string]string{"42P01": noTable, "42703": otherTable, "42501": noRights, "25006": usePrimary, "26000": noPrepared, "42P05": noPrepared,
			"28": noLogin, "3D": noDatabase, "42": "", "22": "", "0A": ""},
		undone: "23 40001 40P01 53 55P03 57P03",
	},
	MySQL: {
		words: []string{"{schema}", "(name varbinary(2048) NOT NULL PRIMARY KEY, owner varbinary(256) NOT NULL, token bigint NOT NULL, since bigint NOT NULL, " +
			"expires bigint NOT NULL, abandoned text CHARACTER SET ascii NOT NULL, abandoned_at bigint NOT NULL) ENGINE=InnoDB",
			"{now}", "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))", "{mine}", "(owner = :owner AND expires > {now})",
			"{free}", "(INSTR(abandoned, :id) = 0 AND (owner IN ('', :owner) OR expires <= {now}))", "{find}", "INSTR", "{most}", "32000"},
		take: takeMySQL, bury: buryMySQL,
		notices: "SELECT 'durability' FROM DUAL WHERE @@GLOBAL.innodb_flush_log_at_trx_commit <> 1 UNION ALL " +
			"SELECT 'replication' FROM DUAL WHERE EXISTS (SELECT 1 FROM information_schema.PROCESSLIST WHERE COMMAND LIKE 'Binlog Dump%')",
		// https://mariadb.com/kb/en/mariadb-error-code-reference/
		refused: map[string]string{"1146": noTable, "1054": otherTable, "1142": noRights, "1143": noRights, "1044": noRights, "1045": noLogin, "1698": noLogin,
			"1130": noLogin, "1049": noDatabase, "1046": noDatabase, "1290": usePrimary, "1836": usePrimary, "1064": ""},
		undone: "1205 1213 1020 1040 1203",
	},
	SQLite: {
		words: []string{"{schema}", "(name text PRIMARY KEY NOT NULL, owner text NOT NULL, token integer NOT NULL, since integer NOT NULL, " +
			"expires integer NOT NULL, abandoned text NOT NULL, abandoned_at integer NOT NULL)",
			"{now}", "CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)", "{mine}", "l.owner = :owner AND l.expires > {now}",
			"{greatest}", "max", "{find}", "instr", "{last}", "substr", "{most}", "-32000", "{name}", ":name", "{owner}", ":owner"},
		take: take, bury: bury, number: "?",
		notices: "SELECT 'durability' FROM pragma_synchronous WHERE synchronous = 0",
		// https://www.sqlite.org/rescode.html
		refused: map[string]string{"1": noTable, "8": noRights, "14": noDatabase, "26": noDatabase},
		undone:  "5 6 13",
	},
}

// What to do about errors.
const (
	noTable    = "make the table first"
	otherTable = "the table has other columns than lockport's: name another one, or drop it"
	noRights   = "the user needs SELECT, INSERT, UPDATE and DELETE on the table"
	noLogin    = "check the user name and the password"
	noDatabase = "create the database, or name another one"
	usePrimary = "the server is read-only, as a replica is: use the primary"
	noPrepared = "a pooler in between keeps no prepared statements: with pgx, set default_query_exec_mode=exec"
)
