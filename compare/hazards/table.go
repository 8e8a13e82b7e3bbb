package hazards

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/lockport/lockport/faults"
	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/play"
	"github.com/lockport/lockport/internal/lab/report"
)

//go:embed hazards.json
var texts []byte

// Hazards are fifteen ways in which a distributed lock goes wrong, ordered by number, with explanations for people new to locks. The caller owns the
// result.
func Hazards() (all []report.Hazard) {
	if err := json.Unmarshal(texts, &all); err != nil {
		panic(err) // the file is embedded
	}
	return all
}

// scenario is one hazard on one subject: the servers, what is done to them and to the clients, and how often.
type scenario struct {
	report.Cell               // before any play. NotRun: it cannot happen here, and the fields below are empty
	environment string        // name of the servers' environment
	ttl         time.Duration // overrides the environment's TTL
	lock        string        // the exhibit of conformance/exhibits/articles that replaces lockport's lock
	plays       int           // how often it is played
	harmful     bool          // it harms the servers, so it plays there alone
	// script plays it. The history shows what clients believed, wrote and were refused. The script adds other observations with found.
	script play.Act
}

// subjects are the columns, in their order.
var subjects = []string{report.Article, "file", "redis", "redlock", "etcd", "zookeeper", "postgres", "mysql", "table"}

// everywhere makes scenarios of s for each backend, and of instead, whose empty fields come from s. The usual environment of a backend has its name,
// but for the table's. A setup begins with the servers.
func everywhere(s scenario, instead ...scenario) []scenario {
	all := instead
	for _, subject := range subjects[1:] {
		if !slices.ContainsFunc(instead, func(o scenario) bool { return o.Subject == subject && o.Variant == "" }) {
			all = append(all, on(subject))
		}
	}
	for i := range all {
		one := &all[i]
		one.Hazard, one.Variant = s.Hazard, cmp.Or(one.Variant, s.Variant)
		if one.NotRun != "" {
			continue
		}
		one.environment = cmp.Or(one.environment, map[string]string{"table": "table-postgres"}[one.Subject], one.Subject)
		one.ttl, one.plays = cmp.Or(one.ttl, s.ttl), cmp.Or(one.plays, s.plays, 1)
		if one.lock != "" && s.plays > 1 {
			one.plays = 3
		}
		if one.Setup == "" {
			at, _ := environment.Named(one.environment) // a test checks the names
			one.Setup = strings.ToUpper(at.Title[:1]) + at.Title[1:] + ". " + s.Setup
		}
		if one.script == nil {
			one.script = s.script
		}
	}
	return all
}

func on(subject string) scenario { return scenario{Cell: report.Cell{Subject: subject}} }

// articleLock is the lock of an article on one Redis.
func articleLock(lock string) scenario { return scenario{environment: "redis"}.with(lock) }

// doing gives a scenario its own setup and script.
func (s scenario) doing(setup string, script play.Act) scenario {
	s.Setup, s.script = setup, script
	return s
}

// impossible says why a hazard cannot happen to a subject.
func impossible(subject, why string) scenario {
	return scenario{Cell: report.Cell{Subject: subject, NotRun: why}}
}

func harm(subject, variant, environment, setup string, act play.Act) scenario {
	c := report.Cell{Subject: subject, Variant: variant, Setup: setup}
	return scenario{Cell: c, environment: environment, ttl: patientTTL, script: act, plays: 1, harmful: true}
}

// with replaces lockport's lock by an article's.
func (s scenario) with(lock string) scenario {
	s.Subject, s.lock, s.Lock = report.Article, lock, article(lock).Is
	return s
}

// table returns all scenarios, ordered by hazard and subject.
func table() []scenario {
	all := slices.Concat(clientHazards(), failOvers(), restarts(), clocks(), outages())
	slices.SortStableFunc(all, func(a, b scenario) int {
		return cmp.Or(cmp.Compare(len(a.Hazard), len(b.Hazard)), cmp.Compare(a.Hazard, b.Hazard), cmp.Compare(slices.Index(subjects, a.Subject), slices.Index(subjects, b.Subject)))
	})
	return all
}

// clientHazards come from clients and their network, and can affect every backend.
func clientHazards() []scenario {
	const session = "There are no owner ids: a lock belongs to a session, which the server knows by its connection."
	const stoppedA = "A holds the lock and is stopped (SIGSTOP) until its TTL has passed and B has the lock"
	const compared = "One Redis that keeps its data. A releases its lock: it asks for the owner and gets the answer. The network delays A's next request until " +
		"the TTL has passed and B has the lock. Then the request arrives. C asks for the lock."
	row := func(hazard, variant string, plays int, setup string, act play.Act) scenario {
		return scenario{Cell: report.Cell{Hazard: hazard, Variant: variant, Setup: setup}, plays: plays, script: act}
	}
	return slices.Concat(
		everywhere(row("H1", "", 2, "A is cut off after the first request of its claim and killed (kill -9). Later rounds do the same after the second and the third "+
			"request. Then B asks for the lock.", claimantsKilled(afterRequest)),
			articleLock("setnx-then-expire"),
			on("file").doing("A folder on one machine. A process is killed (kill -9) while it asks for the lock, or just after it got it. Another process "+
				"waits for the lock.", claimantsKilled(whileAsking))),
		everywhere(row("H2", "", 2, "A holds the lock and is killed (kill -9). B asks for it every eighth of the TTL.", holderKilledWhileOthersTry),
			articleLock("expire-after-failed-setnx")),
		everywhere(row("H3", "", 2, stoppedA+". A resumes and releases the lock it believes it holds. C asks for the lock.", stoppedBeforeItReleases),
			articleLock("plain-del")),
		everywhere(row("H4", "", 2, "A releases its lock, but the network delays the release until the TTL has passed and B has the lock. Then the release arrives. "+
			"C asks for the lock.", releaseHeldUp(1)),
			articleLock("get-then-del").doing(compared, releaseHeldUp(2)),
			impossible("file", "No network can delay a release, and there is no owner to compare: the system ends a process's own lock.")),
		everywhere(row("H5", "", 2, stoppedA+", with the first owner id of B's process. A resumes and releases by its own owner id. C asks for the lock.",
			stoppedBeforeItReleases),
			articleLock("four-digit-owner"),
			impossible("file", "There are no owner ids: the system knows which process has locked a file."),
			impossible("postgres", session), impossible("mysql", session)),
		everywhere(row("H6", "", 2, "A holds the lock and works for 2.5 times its TTL. B waits for the lock.", worksLong), articleLock("nobody-tells-the-holder")),
		everywhere(row("H6", "paused", 2, "A holds the lock, checks it, and is stopped (SIGSTOP) before it writes, until its TTL has passed and B has the lock. B writes. "+
			"A resumes and writes without checking again.", stoppedBeforeItWrites), articleLock("nobody-tells-the-holder")),
		everywhere(row("H10", "", 1, "Everything A sends and receives is delayed by 300 ms (ZooKeeper: 100 ms). When A has the lock, its network falls silent. B asks for "+
			"the lock meanwhile.", slowAnswers("A's network is slow: 300 ms each way", delayed(300*time.Millisecond))),
			impossible("file", "There is no network between a process and the files of its machine, and no server to wait for."),
			scenario{environment: "redlock", ttl: 5 * time.Second}.with("believes-from-the-last-answer").doing("Five Redis, of which the "+
				"last does not answer A. A waits for that answer, and then counts the lock as acquired. B asks for the lock meanwhile.", lastAnswer),
			on("redlock").doing("Five Redis, of which two do not answer A. When A has the lock, its whole network falls silent. B asks for the lock "+
				"meanwhile.", slowAnswers("two of the five servers do not answer A", lastTwoSilent)),
			// A claim on ZooKeeper takes four requests in a row.
			on("zookeeper").doing("", slowAnswers("A's network is slow: 100 ms each way", delayed(100*time.Millisecond)))),
		everywhere(scenario{ttl: 10 * time.Second, script: waitersCounted, Cell: report.Cell{Hazard: "H11",
			Setup: "A holds the lock, and three other processes wait for it. Their requests are counted for 3 s."}},
			articleLock("asks-every-five-milliseconds"),
			impossible("file", "There is no server to keep busy: waiters check a file of their own machine every 10 to 30 ms.")),
		everywhere(scenario{ttl: 4 * time.Second, script: tampered(faults.Remove), Cell: report.Cell{Hazard: "H13",
			Setup: "An operator removes the lock while A holds it (deletes its key or file, or ends its session), twice. The first time, A runs and is told. The second " +
				"time, A is stopped in the middle of its work, B acquires the lock and writes, and A resumes and writes too."}},
			articleLock("set-nx-px").doing("One Redis that keeps its data. An operator deletes the key while A holds the lock: once while A runs, and once while A is "+
				"stopped and B acquires the lock.", tampered(articleDeleted))),
		everywhere(row("H14", "", 2, "A holds the lock and asks for it again: once with a single attempt, and once by waiting for it.", asksTwice),
			impossible(report.Article, "No lock that the articles build lets its holder in again; they mention a library whose lock counts.")),
		everywhere(row("H15", "", 2, "A holds the lock and is killed (kill -9). B waits for the lock.", holderKilled), articleLock("setnx-without-expiry")),
	)
}

// failOvers are H7, a server that fails before it has copied the lock.
func failOvers() []scenario {
	const lags = "A Redis with a replica. The link between them is cut, A acquires the lock, the master is killed, and the replica is promoted."
	return everywhere(scenario{Cell: report.Cell{Hazard: "H7"}},
		harm("", "", "redis-failover", lags, of("master-lost-behind-cut-link")).with("set-nx-px"),
		impossible("file", "There is no server, so no copy can lag: all processes lock the files of one machine."),
		harm("redis", "", "redis-failover", lags, of("master-lost-behind-cut-link")),
		harm("redis", "replicas=1", "redis-replicas", "A Redis with a replica, and the option replicas=1: a lock counts only once the replica has it. The link is "+
			"cut while A holds the lock, the master is killed, and the replica is promoted.", watched(replicated)),
		harm("redlock", "", "redlock", "Five independent Redis. One of them is killed while A holds the lock.", watched(killed("one of the five"))),
		harm("etcd", "", "etcd", "Three etcds. Their leader is killed while A holds the lock.", watched(killed("the leader"))),
		harm("zookeeper", "", "zookeeper", "Three ZooKeepers. Their leader is killed while A holds the lock.", watched(killed("the leader"))),
		harm("postgres", "", "postgres-failover", "A PostgreSQL with a replica. A holds the lock, and its network falls silent. The primary is killed, and the "+
			"replica is promoted.", of("failover-behind-silence")),
		harm("mysql", "", "mysql", "A MariaDB, and a second one that replaces it, as a promoted replica does. The first one keeps running. A holds the lock and "+
			"stays connected to it.", of("split-brain")),
		harm("table", "", "table-failover", "A table of a PostgreSQL with a lagging replica. A holds the lock, and its network falls silent. The primary is "+
			"killed, and the replica is promoted.", of("failover-of-a-lagging-replica")))
}

// restarts are H8, a node that restarts without its data.
func restarts() []scenario {
	const vote = "Five Redis without persistence. A reaches three of them and acquires the lock there. One of the three is killed and restarts at once, empty. B " +
		"acquires the lock with its vote and the votes of the two that A did not reach."
	all := []scenario{
		harm("", "", "redlock", vote, of("node-restarted-empty")).with("redlock"),
		harm("file", "", "file", "A folder. While A holds the lock, an empty folder replaces the first one, and B acquires the lock. This happens four times.",
			of("folder-replaced")),
		harm("redis", "", "redis", "One Redis. While A holds the lock, the Redis is killed, loses its disk and restarts empty.", of("server-restarted-empty")),
		harm("redlock", "", "redlock", vote, of("node-restarted-empty")),
	}
	for _, of3 := range []struct{ subject, name string }{{"etcd", "etcd"}, {"zookeeper", "ZooKeeper"}} {
		alone := of3.subject + "-alone"
		all = append(all,
			harm(of3.subject, "", of3.subject, "Three "+of3.name+"s. While A holds the lock, one of them is killed, loses its disk and is started again.",
				watched(diskLost)),
			harm(of3.subject, "alone", alone, "One "+of3.name+". A holds the lock, and its network falls silent. The "+of3.name+
				" is killed, loses its disk and restarts empty.", of("server-restarted-empty")))
	}
	for _, db := range [][2]string{{"postgres", "PostgreSQL"}, {"mysql", "MariaDB"}} {
		all = append(all,
			harm(db[0], "", db[0], "One "+db[1]+", which keeps its data across a restart, but no lock. It is killed while A holds the lock, and restarted when A "+
				"knows.", watched(crashed)),
			harm(db[0], "behind a silent link", db[0], "One "+db[1]+". A holds the lock, and its network falls silent. The "+db[1]+" is restarted.",
				of("server-restarted-behind-silence")))
	}
	all = append(all, harm("table", "", "table-postgres", "A table of one PostgreSQL, which keeps what it has committed. It is killed while A holds the lock, "+
		"and restarts.", watched(crashed)))
	return everywhere(scenario{Cell: report.Cell{Hazard: "H8"}}, all...)
}

// clocks are H9, a server whose clock jumps.
func clocks() []scenario {
	const forward = "One Redis. Its clock is set forward by more than the TTL while A holds the lock."
	const not = "Not tried, and it should not matter: "
	return everywhere(scenario{Cell: report.Cell{Hazard: "H9"}},
		harm("", "", "redis", forward, of("clock-set-forward")).with("set-nx-px"),
		harm("redis", "", "redis", forward, of("clock-set-forward")),
		harm("redlock", "", "redlock", "Five Redis. A reaches three of them and acquires the lock there. The clock of one of the three is set forward by more "+
			"than the TTL. B acquires the lock with its vote and the votes of the two that A did not reach.", of("clock-of-a-node-set-forward")),
		impossible("file", not+"a lock of the system ends with its process, and no clock is involved."),
		impossible("etcd", not+"etcd's leader counts leases by a clock that nobody sets, not by the time of day."),
		impossible("zookeeper", not+"ZooKeeper counts sessions by a clock that nobody sets, not by the time of day."),
		impossible("postgres", not+"a lock ends with its session, and a system timer ends a silent session. It counts from when it was set."),
		impossible("mysql", not+"a lock ends with its session, and a socket timeout ends a silent session. Tokens are the clock, or one more than the last "+
			"token, so they rise anyway."),
		harm("table", "", "table-postgres", "A table of one PostgreSQL. The server's clock is set forward by more than the TTL while A holds the lock.",
			of("clock-set-forward")))
}

// outages are H12, a server that is away when a lock is acquired or released.
func outages() []scenario {
	const setup = "The network falls silent for A and B. A, which holds the lock, releases it. B asks for another lock with a limit of 1 s. When the network is back, " +
		"C asks for A's lock."
	swallows := articleLock("release-swallows-errors")
	swallows.ttl = patientTTL
	mistakes := articleLock("takes-an-error-for-held").doing("One Redis. The network is cut for A and B. A, which holds the lock, releases it. B asks for another lock. "+
		"When the network is back, C asks for A's lock.", away(openly))
	mistakes.Variant = "an error is taken for held"
	folder := harm("file", "", "file", "A folder, which is moved away while A holds the lock. A releases the lock, and B asks for another lock with a limit of "+
		"1 s. When the folder is back, C asks for A's lock.", away(folderAway))
	return everywhere(scenario{Cell: report.Cell{Hazard: "H12", Setup: setup}, script: away(silently)}, swallows, mistakes, folder)
}
