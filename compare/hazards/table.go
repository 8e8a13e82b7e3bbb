package hazards

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"slices"
	"time"

	"github.com/lockport/lockport/internal/lab/play"
	"github.com/lockport/lockport/internal/lab/report"
)

//go:embed hazards.json
var texts []byte

// Hazards are the fifteen ways in which a distributed lock goes wrong, in the order of their numbers, explained to people who have not read about them. The
// caller owns the result.
func Hazards() (all []report.Hazard) {
	if err := json.Unmarshal(texts, &all); err != nil {
		panic(err) // it is embedded
	}
	return all
}

// scenario is one hazard on one subject: the servers, what is done to them and to the clients, and how often.
type scenario struct {
	hazard, subject, variant string
	setup                    string        // report.Cell.Setup
	environment              string        // the name of the servers'
	ttl                      time.Duration // of the locks, where it is not the environment's
	lock                     string        // the exhibit of conformance/exhibits/articles that takes the place of lockport's own lock
	notRun                   string        // why it cannot happen here; nothing else is set then
	full                     bool          // only full runs play it
	plays                    int           // how often a quick run plays it (0 is once)
	alone                    bool          // it harms the servers, so that nothing else can be played on them at the same time
	// script plays it. What clients believed, wrote and were refused, the history tells; the script adds with found what that cannot show.
	script play.Act
}

// planned is what a report says of a scenario before it is played.
func (s *scenario) planned() *report.Cell {
	c := &report.Cell{Hazard: s.hazard, Subject: s.subject, Variant: s.variant, Setup: s.setup}
	if s.lock != "" {
		c.Lock = article(s.lock).Is
	}
	return c
}

// standing are the backends, in the order of the columns, and the servers on which each is by itself.
var standing = []struct{ subject, environment, what string }{
	{"file", "file", "a folder of one machine"}, {"redis", "redis", "one Redis that keeps its data"}, {"redlock", "redlock", "five Redis under Redlock"},
	{"etcd", "etcd", "three etcds"}, {"zookeeper", "zookeeper", "three ZooKeepers"}, {"postgres", "postgres", "one PostgreSQL"}, {"mysql", "mysql", "one MariaDB"},
	{"table", "table-postgres", "a table of one PostgreSQL"},
}

// subjects are the columns, in their order.
var subjects = func() []string {
	all := []string{report.Article}
	for _, s := range standing {
		all = append(all, s.subject)
	}
	return all
}()

// everywhere makes scenarios of s for each backend, and of instead, which take what they lack from s. The setup follows upon the servers.
func everywhere(s scenario, instead ...scenario) []scenario {
	all := instead
	for _, at := range standing {
		if !slices.ContainsFunc(instead, func(o scenario) bool { return o.subject == at.subject && o.variant == "" }) {
			all = append(all, scenario{subject: at.subject, environment: at.environment})
		}
	}
	for i := range all {
		one := &all[i]
		one.hazard, one.variant = s.hazard, cmp.Or(one.variant, s.variant)
		if one.notRun != "" {
			continue
		}
		one.environment, one.ttl, one.plays = cmp.Or(one.environment, one.subject), cmp.Or(one.ttl, s.ttl), cmp.Or(one.plays, s.plays)
		if one.lock != "" && s.plays > 1 {
			one.plays = 3
		}
		if one.setup == "" {
			at := slices.IndexFunc(standing, func(o struct{ subject, environment, what string }) bool { return o.environment == one.environment })
			one.setup = standing[at].what + "; " + s.setup
		}
		if one.script == nil {
			one.script = s.script
		}
	}
	return all
}

// by is the lock of an article on one Redis.
func by(lock string) scenario {
	return scenario{subject: report.Article, environment: "redis", lock: lock}
}

// in gives a scenario a variant that only full runs play.
func (s scenario) in(variant string) scenario {
	s.variant, s.full = variant, true
	return s
}

// doing gives a scenario a setup and a script of its own.
func (s scenario) doing(setup string, script play.Act) scenario {
	s.setup, s.script = setup, script
	return s
}

// none says why a hazard cannot happen to a subject.
func none(hazard, subject, why string) scenario {
	return scenario{hazard: hazard, subject: subject, notRun: why}
}

// harm is a scenario that harms servers of its own.
func harm(hazard, subject, variant, environment, setup string, act play.Act) scenario {
	return scenario{hazard: hazard, subject: subject, variant: variant, environment: environment, setup: setup, ttl: patientTTL, script: act, alone: true}
}

// with has the lock of an article take the place of lockport's.
func (s scenario) with(lock string) scenario {
	s.subject, s.lock = report.Article, lock
	return s
}

// table is every scenario, in the order of the hazards and subjects.
func table() []scenario {
	all := slices.Concat(clientHazards(), failOvers(), restarts(), clocks(), absences())
	slices.SortStableFunc(all, func(a, b scenario) int {
		return cmp.Or(cmp.Compare(len(a.hazard), len(b.hazard)), cmp.Compare(a.hazard, b.hazard), cmp.Compare(slices.Index(subjects, a.subject), slices.Index(subjects, b.subject)))
	})
	return all
}

// clientHazards come from clients and their network, and can happen to every backend.
func clientHazards() []scenario {
	const session = "There are no ids of owners: a lock belongs to a session, which the server tells from others by its connection."
	const stoppedA = "A has the lock and is stopped (SIGSTOP) until its TTL has passed and B has the lock"
	const compared = "one Redis that keeps its data; A releases its lock; it has asked whose that is and been told, and what it sends next the network holds up until the TTL has passed and B " +
		"has the lock; then that arrives; C asks for the lock"
	row := func(hazard, variant string, plays int, setup string, act play.Act) scenario {
		return scenario{hazard: hazard, variant: variant, plays: plays, setup: setup, script: act}
	}
	return slices.Concat(
		everywhere(row("H1", "", 2, "A is cut off after the first request of its claim and killed (kill -9), in further rounds others after the second and the third; B asks for the lock then",
			claimantsKilled(afterRequest)),
			by("setnx-then-expire"),
			scenario{subject: "file"}.doing("a folder of one machine; a process is killed (kill -9) while it asks for the lock, or has just got it, and another one waits for it",
				claimantsKilled(whileAsking))),
		everywhere(row("H2", "", 2, "A has the lock and is killed (kill -9); B asks for it every eighth of the TTL", holderKilledWhileOthersTry), by("expire-after-failed-setnx")),
		everywhere(row("H3", "", 2, stoppedA+"; A goes on and releases what it takes for its lock; C asks for it", stoppedBeforeItReleases), by("plain-del")),
		everywhere(row("H4", "", 2, "A releases its lock, and the network holds that up until the TTL has passed and B has the lock; then it arrives; C asks for the lock", releaseHeldUp(1)),
			by("get-then-del").doing(compared, releaseHeldUp(2)), by("watch-multi").in("WATCH").doing(compared, releaseHeldUp(2)),
			none("H4", "file", "There is no network on which a release could be held up, and nothing to compare: the system ends a process's own lock.")),
		everywhere(row("H5", "", 2, stoppedA+", by the first owner id of its own process; A goes on and releases by its owner id; C asks for the lock", stoppedBeforeItReleases),
			by("four-digit-owner"), by("thread-id-owner").in("thread id"),
			none("H5", "file", "There are no ids of owners: the system knows which process has a file locked."), none("H5", "postgres", session), none("H5", "mysql", session)),
		everywhere(row("H6", "", 2, "A has the lock and works for two and a half times its TTL; B waits for it", worksLong), by("nobody-tells-the-holder")),
		everywhere(row("H6", "paused", 2, "A has the lock, looks, and is stopped (SIGSTOP) before it writes, until its TTL has passed and B has the lock; B writes; A goes on and writes without "+
			"another look", stoppedBeforeItWrites()), by("nobody-tells-the-holder")),
		everywhere(row("H10", "", 1, "all that A sends and is sent comes 300 ms late (to ZooKeeper 100 ms), and when it has the lock its network falls silent, while B asks for the lock",
			slowAnswers("what A sends and is sent comes 300 ms late", late(300*time.Millisecond))),
			none("H10", "file", "There is no network between a process and the files of its machine, and nobody to be waited for."),
			scenario{subject: report.Article, environment: "redlock", lock: "believes-from-the-last-answer", ttl: 5 * time.Second}.doing("five Redis, the last of which does not "+
				"answer A, which waits for its answer and then takes the lock as had; B asks for the lock meanwhile", lastAnswer),
			scenario{subject: "redlock"}.doing("five Redis, two of which do not answer A; when it has the lock its network falls silent as a whole, while B asks for the lock",
				slowAnswers("two of the five servers do not answer A", hung)),
			scenario{subject: "zookeeper", script: slowAnswers("what A sends and is sent comes 100 ms late", late(100*time.Millisecond))}), // a claim has four requests, one after the other
		everywhere(scenario{hazard: "H11", ttl: 10 * time.Second, setup: "A holds the lock, and three other processes wait for it, whose requests are counted for 3 s", script: waitersCounted},
			by("asks-every-five-milliseconds"), by("asks-every-millisecond").in("every millisecond"),
			none("H11", "file", "There is no server that could have too much to do: who waits looks at a file of its own machine, every 10 to 30 ms.")),
		everywhere(scenario{hazard: "H13", ttl: 4 * time.Second, setup: "an operator takes the lock away while A holds it (deletes its key or file, or ends its session), twice: once A goes on and is " +
			"told; once A is stopped in the middle of its work, B takes the lock and writes, and A goes on and writes too", script: tampered(removed)},
			by("set-nx-px").doing("one Redis that keeps its data; an operator deletes the key while A holds the lock, once while A runs, and once while it is stopped and B takes the lock",
				tampered(articleDeleted))),
		everywhere(row("H14", "", 2, "A has the lock, and asks for it again, by one attempt and by waiting for it", asksTwice),
			none("H14", report.Article, "None of the locks that the articles build lets its holder in again; they tell of a library's that counts.")),
		everywhere(row("H15", "", 2, "A has the lock and is killed (kill -9); B waits for it", holderKilled), by("setnx-without-expiry")),
	)
}

// failOvers are H7, a server that fails before it has copied the lock.
func failOvers() []scenario {
	const lags = "a Redis with a replica; the link between them is cut, A takes the lock, the master is killed and the replica promoted"
	lives := func(variant, fault, setup string) scenario {
		return harm("H7", "postgres", "", "postgres-failover", setup, of(fault)).in(variant)
	}
	return []scenario{
		harm("H7", "", "", "redis-failover", lags, of("master-lost-behind-cut-link")).with("set-nx-px"),
		none("H7", "file", "There is no server, and so no copy that could lag: all processes lock the files of one machine."),
		harm("H7", "redis", "", "redis-failover", lags, of("master-lost-behind-cut-link")),
		harm("H7", "redis", "replicas=1", "redis-replicas", "the same, with the option replicas=1: a lock counts as had when the replica has it; the link is cut while A holds the lock, the "+
			"master is killed, and the replica promoted", watched(replicated)),
		harm("H7", "redis", "", "redis-sentinel", "a Redis with a replica and three Sentinels; the replica is kept from copying, A takes the lock, the master is killed, and the Sentinels "+
			"promote the replica", of("master-killed-behind-cut-link")).in("Sentinel"),
		harm("H7", "redlock", "", "redlock", "five Redis that know nothing of each other; one of them is killed while A holds the lock", watched(killed("one of the five"))),
		harm("H7", "etcd", "", "etcd", "three etcds; their leader is killed while A holds the lock", watched(killed("the leader"))),
		harm("H7", "zookeeper", "", "zookeeper", "three ZooKeepers; their leader is killed while A holds the lock", watched(killed("the leader"))),
		harm("H7", "postgres", "", "postgres-failover", "a PostgreSQL with a replica; the network of A, which holds the lock, falls silent, the primary is killed, and the replica promoted",
			of("failover-behind-silence")),
		lives("two primaries", "split-brain", "a PostgreSQL with a replica that lags; the replica is promoted while the old primary lives on, and A with it"),
		lives("two primaries and a crash", "split-brain-and-crash",
			"a PostgreSQL with a replica, which is promoted while the old primary lives on, and A with it; the old primary crashes and starts again"),
		harm("H7", "mysql", "", "mysql", "a MariaDB, and another one that takes its place, as a replica that is promoted does; the old one lives on, and A, which holds the lock, with it", of("split-brain")),
		harm("H7", "table", "", "table-failover", "a table of a PostgreSQL with a replica that lags; the network of A, which holds the lock, falls silent, the primary is killed, and the replica promoted",
			of("failover-of-a-lagging-replica")),
	}
}

// restarts are H8, a node that restarts without its data.
func restarts() []scenario {
	const vote = "five Redis without persistence; A reaches three of them and takes the lock there, one of the three is killed and starts again at once, empty, and " +
		"B takes the lock with the votes of that one and the two others"
	all := []scenario{
		harm("H8", "", "", "redlock", vote, of("node-restarted-empty")).with("redlock"),
		harm("H8", "file", "", "file", "a folder; A holds the lock and is stopped in the middle of its work, the folder is replaced by an empty one, B takes the lock, and A goes on",
			stoppedBeforeItWrites(folderReplaced)),
		harm("H8", "redis", "", "redis", "one Redis; while A holds the lock it is killed, loses its disk and starts again, empty", of("server-restarted-empty")),
		harm("H8", "redlock", "", "redlock", vote, of("node-restarted-empty")),
		harm("H8", "redlock", "", "redlock", "five Redis without persistence; while A holds the lock on all of them, three are killed and start again at once, empty",
			of("majority-restarted-empty")).in("three of five"),
	}
	for _, of3 := range []struct{ subject, what, name string }{{"etcd", "three etcds", "etcd"}, {"zookeeper", "three ZooKeepers", "ZooKeeper"}} {
		alone := of3.subject + "-alone"
		all = append(all,
			harm("H8", of3.subject, "", of3.subject, of3.what+"; while A holds the lock one of them is killed, loses its disk and is started again", watched(diskLost)),
			harm("H8", of3.subject, "alone", alone, "one "+of3.name+"; the network of A, which holds the lock, falls silent, and the "+of3.name+
				" is killed, loses its disk and starts again, empty", of("server-restarted-empty")))
	}
	for _, db := range [][2]string{{"postgres", "PostgreSQL"}, {"mysql", "MariaDB"}} {
		all = append(all,
			harm("H8", db[0], "", db[0], "one "+db[1]+", which keeps its data but no lock over a restart; it is killed while A holds the lock, and started again when A knows", restarted),
			harm("H8", db[0], "behind a silent link", db[0], "one "+db[1]+"; the network of A, which holds the lock, falls silent, and the "+db[1]+" is restarted", of("server-restarted-behind-silence")))
	}
	return append(all, harm("H8", "table", "", "table-postgres", "a table of one PostgreSQL, which keeps what it has committed; it is killed while A holds the lock, and starts again", watched(crashed)))
}

// clocks are H9, a server whose clock jumps.
func clocks() []scenario {
	const forward = "one Redis; its clock is set forward, by more than the TTL, while A holds the lock"
	const not = "Not tried, and it should not matter: "
	return []scenario{
		harm("H9", "", "", "redis", forward, of("clock-set-forward")).with("set-nx-px"),
		harm("H9", "redis", "", "redis", forward, of("clock-set-forward")),
		scenario{hazard: "H9", subject: "redis", environment: "redis", alone: true}.in("set back").
			doing("one Redis; A, which holds the lock, is killed, and the clock of the Redis is set back by an hour", clockSetBack),
		harm("H9", "redlock", "", "redlock", "five Redis; A reaches three of them and takes the lock there, the clock of one of the three is set forward by more than the TTL, and "+
			"B takes the lock with the votes of that one and the two others", of("clock-of-a-node-set-forward")),
		harm("H9", "redlock", "", "redlock", "five Redis; the clocks of three of them are set forward by more than the TTL while A holds the lock on all of them",
			of("clocks-of-a-majority-set-forward")).in("three of five"),
		none("H9", "file", not+"a lock of the system ends with its process, and no clock has a part in that."),
		none("H9", "etcd", not+"the leader of the etcds counts leases by a clock that nobody sets, not by the time of day."),
		none("H9", "zookeeper", not+"ZooKeeper counts sessions by a clock that nobody sets, not by the time of day."),
		none("H9", "postgres", not+"a lock ends with its session, and PostgreSQL ends a silent one by a timer of the system, which counts from when it was set."),
		none("H9", "mysql", not+"a lock ends with its session, and the server ends a silent one when a wait on its socket has lasted too long. Tokens are "+
			"the clock or one more than the last, so that they rise all the same."),
		harm("H9", "table", "", "table-postgres", "a table of one PostgreSQL; the server's clock is set forward, by more than the TTL, while A holds the lock", of("clock-set-forward")),
	}
}

// absences are H12, a server that is not there when a lock is acquired or released.
func absences() []scenario {
	const setup = "the network falls silent for A, which holds the lock and releases it, and for B, which asks for another lock with a limit of 1 s; when it is back, C asks for A's lock"
	swallows := by("release-swallows-errors")
	swallows.ttl = patientTTL
	mistakes := by("takes-an-error-for-held").doing("one Redis; the network is cut for A, which holds the lock and releases it, and for B, which asks for another lock; when it is back, C asks "+
		"for A's lock", away(openly))
	mistakes.variant = "an error is taken for held"
	folder := harm("H12", "file", "", "file", "a folder; it is moved away while A holds the lock, A releases it, and B asks for another lock with a limit of 1 s; when the folder is back, C asks "+
		"for A's lock", away(folderAway))
	return everywhere(scenario{hazard: "H12", setup: setup, script: away(silently)}, swallows, mistakes, folder)
}
