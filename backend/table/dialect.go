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
	words        []string // pairs: a word in braces, and its SQL, which may contain words
	numbered     bool     // placeholders are $1, $2 …
	skips        bool     // renewals can skip locked rows, and return the owners of the others. MySQL's UPDATE returns no rows
	schema, take string
	notices      []string // select or show the risks that apply
}

// take takes a name; its arguments are name, owner, TTL. abandon makes sure that a claim cannot take it later. Both lock the name's row, so that
// they run one after the other.
const (
	// take inserts the row, or takes it over if the name is free. A claim that already has it keeps its token, and an expiry that a renewal has set:
	// a proxy may repeat statements. It writes nothing if somebody else has the name.
	take = `INSERT INTO {table} AS l (name, owner, token, since, expires, abandoned, abandoned_at)
SELECT c.name, c.owner, c.now, c.now, c.now + c.ttl, '', 0
FROM (SELECT CAST(? AS text) AS name, CAST(? AS text) AS owner, CAST(? AS bigint) AS ttl, {now} AS now) AS c
WHERE NOT EXISTS (SELECT 1 FROM {table} AS h WHERE h.name = c.name AND h.owner NOT IN ('', c.owner) AND h.expires > c.now)
ON CONFLICT (name) DO UPDATE SET
token = CASE WHEN l.owner = excluded.owner AND l.expires > excluded.since THEN l.token ELSE {greatest}(l.token + 1, excluded.token) END,
since = excluded.since, owner = excluded.owner,
expires = {greatest}(excluded.expires, CASE WHEN l.owner = excluded.owner THEN l.expires ELSE 0 END)
WHERE (l.owner IN ('', excluded.owner) OR l.expires <= excluded.since) AND {find}(l.abandoned, substr(excluded.owner, 1, 32)) = 0
RETURNING token`

	// MySQL's insert returns no rows, only the argument of LAST_INSERT_ID: the token, or 0 if somebody else has the name. Assignments see the earlier
	// ones, or under SIMULTANEOUS_ASSIGNMENT the old row; both give the same row. A repetition keeps since, which tells expires of it.
	takeMySQL = `INSERT INTO {table} (name, owner, token, since, expires, abandoned, abandoned_at)
VALUES (?, ?, LAST_INSERT_ID({now}), {now}, {now} + ?, '', 0)
ON DUPLICATE KEY UPDATE
token = CASE WHEN owner = VALUES(owner) AND expires > {now} THEN LAST_INSERT_ID(token)
WHEN {free} THEN LAST_INSERT_ID(GREATEST(token + 1, VALUES(token))) ELSE token + LAST_INSERT_ID(token * 0) END,
since = IF({free} AND (owner <> VALUES(owner) OR expires <= {now}), VALUES(since), since),
owner = IF({free}, VALUES(owner), owner),
expires = IF({free}, GREATEST(VALUES(expires), IF(owner = VALUES(owner) AND since <> VALUES(since), expires, 0)), expires)`

	// The arguments of abandon are name, the random part of the owner, which is remembered, and owner.
	abandon = `INSERT INTO {table} (name, owner, token, since, expires, abandoned, abandoned_at)
VALUES (?, '', 0, 0, {now}, ?, {now}) {or update}
owner = CASE WHEN {table}.owner = ? THEN '' ELSE {table}.owner END,
abandoned = {last}({concat}CASE WHEN {table}.abandoned_at < {now} - 60000000 THEN '' ELSE {table}.abandoned END, {new abandoned}), {most}),
abandoned_at = {now}`

	// Other releases and other programs share the layout: a change needs a major version. With another collation than "C", an update of
	// the operating system could corrupt the key's index, so that a name gets two rows.
	schema = "CREATE TABLE IF NOT EXISTS {table} (name text{collate} NOT NULL PRIMARY KEY, owner text NOT NULL, token bigint NOT NULL, since bigint NOT NULL, " +
		"expires bigint NOT NULL, abandoned text NOT NULL, abandoned_at bigint NOT NULL)"
	schemaMySQL = "CREATE TABLE IF NOT EXISTS {table} (name varbinary(2048) NOT NULL PRIMARY KEY, owner varbinary(256) NOT NULL, token bigint NOT NULL, since bigint NOT NULL, " +
		"expires bigint NOT NULL, abandoned text CHARACTER SET ascii NOT NULL, abandoned_at bigint NOT NULL) ENGINE=InnoDB"
)

var dialects = [...]dialect{
	Postgres: {
		words: []string{"{now}", "CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)", "{greatest}", "greatest", "{find}", "strpos",
			"{collate}", ` COLLATE "C"`, "{delete}", "DELETE FROM {table}", "{last}", "right", "{most}", "32000", "{concat}", "concat(", "{or update}", "ON CONFLICT (name) DO UPDATE SET", "{new abandoned}", "excluded.abandoned"},
		schema: schema, numbered: true, skips: true, take: take,
		notices: []string{"SELECT 'durability' WHERE 'off' IN (current_setting('synchronous_commit'), current_setting('fsync')) UNION ALL " +
			// An ordinary user sees that there is a replica, but not its state.
			"SELECT 'replication' WHERE EXISTS (SELECT 1 FROM pg_stat_replication " +
			"WHERE sync_state NOT IN ('sync', 'quorum') OR sync_state IS NULL AND current_setting('synchronous_standby_names') = '')"},
	},
	MySQL: {
		// {now} overflows without autocommit, where writes are not committed and reads are old: error 1690 refuses the statement.
		words: []string{"{now}", "(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + 9223372036854775807 * (@@autocommit = 0))", "{greatest}", "GREATEST", "{free}", "(INSTR(abandoned, LEFT(VALUES(owner), 32)) = 0 AND (owner IN ('', VALUES(owner)) OR expires <= {now}))",
			// Without FORCE INDEX, MariaDB may scan the table, and lock each row. With an alias, the connection needs a default database.
			"{delete}", "DELETE {table} FROM {table} FORCE INDEX (PRIMARY)",
			"{last}", "RIGHT", "{most}", "32000", "{concat}", "CONCAT(", "{or update}", "ON DUPLICATE KEY UPDATE", "{new abandoned}", "VALUES(abandoned)"},
		schema: schemaMySQL, take: takeMySQL,
		notices: []string{"SELECT 'durability' FROM DUAL WHERE @@GLOBAL.innodb_flush_log_at_trx_commit <> 1 OR " +
			"@@GLOBAL.log_bin AND @@GLOBAL.sync_binlog <> 1 UNION ALL " + // a crash rolls back what the binary log lacks
			"SELECT 'replication' FROM DUAL WHERE EXISTS (SELECT 1 FROM information_schema.PROCESSLIST WHERE COMMAND LIKE 'Binlog Dump%')",
			"SHOW GLOBAL STATUS WHERE Variable_name = 'Slaves_running' AND Value > 0", // MySQL has no such variable
			// They differ among MariaDB, MySQL and Percona's cluster, and an unknown @@variable is an error.
			"SHOW GLOBAL VARIABLES WHERE Variable_name = 'wsrep_provider' AND Value NOT IN ('', 'none') OR Variable_name = 'group_replication_single_primary_mode' AND Value = 'OFF'"},
	},
	SQLite: {
		words: []string{"{now}", "CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)", "{greatest}", "max", "{find}", "instr",
			"{collate}", "", "{delete}", "DELETE FROM {table}", "{last}", "substr", "{most}", "-32000", "{concat}", "printf('%s%s', ", "{or update}", "ON CONFLICT (name) DO UPDATE SET", "{new abandoned}", "excluded.abandoned"},
		schema: schema, take: take,
		notices: []string{"SELECT 'durability' FROM pragma_synchronous, pragma_journal_mode WHERE synchronous = 0 OR synchronous = 1 AND journal_mode = 'wal'"},
	},
}
