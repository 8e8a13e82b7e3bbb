package postgres

// statement is an SQL statement that a session prepares before its first use.
type statement struct{ name, sql string }

// channel carries the notifications: "f" (freed) or "c" (contended), and the key.
const channel = "lockport"

// sessionSetting is the setting with the marker of a session. Nobody can set otherSession, which has no dot: reading it fails.
const sessionSetting, otherSession = "lockport.session", "lockport_session_of_another_client"

// onSession returns an expression for condition that fails if the session does not have marker, before it evaluates condition. A pooler that left
// session mode runs a client's statements on the sessions of others, whose locks do not exclude it.
func onSession(marker, condition string) string {
	return `CASE coalesce(current_setting('` + sessionSetting + `', true), '') WHEN ` + marker + ` THEN ` + condition +
		` ELSE current_setting('` + otherSession + `')::bool END`
}

// statements are the SQL of a session. Each runs in a transaction of its own, and returns rows of one number. $1 is the session's marker. The locks
// depend on the order of evaluation: a CASE evaluates its branches after its conditions. So a token is drawn only with the lock, and a release looks
// for waiters once the lock is free. Sessions that await a key hold its side lock in shared mode.
type statements struct {
	try       statement // a token, or NULL
	tryBeside statement // the same for shared locks that the session has already: NULL if others wait
	free      statement // 1, or 0 if this session did not have it
	change    statement // the results of free for some keys, then those of try for others
	wait      statement // a token
	tryPermit statement // the key taken from several, then a token; no row if none was free

	undoPermit statement // how many of several keys were released
	contend    statement // announces a waiter
	await      statement
	leave      statement
	ping       statement // 1
	end        statement // 1 if an earlier session has certainly ended
}

// newStatements returns the statements; draw is the expression that draws a token.
func newStatements(draw string) *statements {
	here := func(condition string) string { return onSession("$1::bigint::text", condition) }
	notify := func(event, key string) string {
		return `length(pg_notify('` + channel + `', '` + event + `' || ` + key + `)::text)`
	}
	lock := func(function, key, shared string) string {
		return `CASE WHEN ` + shared + ` THEN ` + function + `_shared(` + key + `) ELSE ` + function + `(` + key + `) END`
	}
	free := func(key, awaited, hi, lo, shared string) string {
		return `SELECT CASE WHEN ` + here(lock("pg_advisory_unlock", key, shared)) + ` THEN
			CASE WHEN pg_try_advisory_xact_lock(` + hi + `, ` + lo + `) THEN 1 ELSE 1 + ` + notify("f", awaited) + ` END ELSE 0 END::bigint`
	}
	try := func(key, shared string) string {
		return `SELECT CASE WHEN ` + here(lock("pg_try_advisory_lock", key, shared)) + ` THEN ` + draw + ` END`
	}
	return &statements{
		try: statement{"lp_try", try("$2::bigint", "$3::bool")},
		// A subquery that does not depend on k runs once.
		tryBeside: statement{"lp_try_beside", `SELECT CASE WHEN ` + here(`k <> ALL (ARRAY(SELECT `+keySQL+` FROM pg_locks l WHERE `+advisory+
			` AND l.objsubid = 1 AND NOT l.granted))`) + ` THEN (` + try("k", "true") + `) END FROM unnest($2::bigint[]) AS u(k)`},
		free: statement{"lp_free", free("$2::bigint", "$3::bigint", "$4::int", "$5::int", "$6::bool")},
		change: statement{"lp_free_lp_try", free("k", "awaited", "hi", "lo", "shared") +
			` FROM unnest($2::bigint[], $3::bigint[], $4::int[], $5::int[], $6::bool[]) AS u(k, awaited, hi, lo, shared)
			UNION ALL ` + try("k", "shared") + ` FROM unnest($7::bigint[], $8::bool[]) AS u(k, shared)`},
		wait: statement{"lp_wait", `SELECT CASE WHEN ` + here(`CASE WHEN set_config('lock_timeout', '`+milliseconds(waitLockTimeout)+`', true) IS NOT NULL THEN `+
			lock("pg_advisory_lock", "$2::bigint", "$3::bool")+` IS NOT NULL END`) + ` THEN ` + draw + ` END`},
		// The second branch reads the first one's result.
		tryPermit: statement{"lp_try_permit", `WITH got AS MATERIALIZED (SELECT k FROM unnest($2::bigint[]) AS k WHERE ` + here("pg_try_advisory_lock(k)") + ` LIMIT 1)
			SELECT k FROM got UNION ALL SELECT ` + draw + ` FROM got`},
		undoPermit: statement{"lp_undo_permit", `SELECT count(*) FILTER (WHERE ` + here("pg_advisory_unlock(k)") + `) FROM unnest($2::bigint[]) AS k`},

		contend: statement{"lp_contend", `SELECT CASE WHEN ` + here("true") + ` THEN ` + notify("c", "$2::bigint") + `::bigint END`},
		await:   statement{"lp_await", `SELECT CASE WHEN ` + here("pg_advisory_lock_shared($3::int, $4::int) IS NOT NULL") + ` THEN ` + notify("c", "$2::bigint") + `::bigint END`},
		leave:   statement{"lp_leave", `SELECT ` + here("pg_advisory_unlock_shared($2::int, $3::int)") + `::int::bigint`},
		ping:    statement{"lp_ping", `SELECT ` + here("true") + `::int::bigint`},
		// Without its marker the session has ended, or is just releasing its other locks. After the signal it soon does both.
		end: statement{"lp_end", `SELECT coalesce(bool_and(pg_terminate_backend(pid) AND pg_sleep(0.01) IS NOT NULL AND NOT EXISTS (SELECT FROM pg_locks
			WHERE locktype = 'advisory' AND pid = l.pid)), pg_sleep(0.01) IS NOT NULL)::int::bigint FROM pg_locks l
			WHERE ` + here("true") + ` AND locktype = 'advisory' AND objsubid = 2 AND pid = $2::bigint AND classid::bigint = $3::bigint AND objid::bigint = $4::bigint`},
	}
}
