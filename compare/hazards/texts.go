package hazards

import "github.com/lockport/lockport/internal/lab/report"

// Hazards are the fifteen ways in which a distributed lock goes wrong, in the order of their numbers, for people who have not read about them. The caller owns
// the result.
func Hazards() []report.Hazard {
	return []report.Hazard{
		{
			ID: "H1", Title: "A crash in the middle of acquiring",
			Happens: "Two requests make the lock: the first one sets it (SETNX), the second one says when it ends (EXPIRE). A process that dies, or loses its network, " +
				"between the two leaves a lock without an end. From then on nobody gets it until somebody deletes it by hand.",
			Do: "Set the lock and its end in one request. lockport does so on every backend; for another program's lock that is stuck, " +
				"lockport status shows who left it and lockport break frees it.",
			Articles: []string{"000", "001", "003", "004"},
		},
		{
			ID: "H2", Title: "Waiting prolongs somebody else's lock",
			Happens: "A process that asks for the lock and does not get it renews its expiry all the same. If the holder is dead and others go on asking, " +
				"each attempt pushes the end further away, and the lock never ends.",
			Do:       "Let nobody but the holder renew. In lockport a renewal names the holder that the server must find, and changes nothing if it finds another.",
			Articles: []string{"001"},
		},
		{
			ID: "H3", Title: "Releasing the next holder's lock",
			Happens: "A process works for longer than its lock lasts. The lock ends, another process takes it, and then the first one is done and deletes it, " +
				"without looking whose it is. A third process gets in while the second one is still at work.",
			Do: "Release only what is yours: give each lock an owner, and compare it when the lock is deleted. lockport does so, and a Release that comes too late " +
				"returns ErrLost.",
			Articles: []string{"000", "003", "004"},
		},
		{
			ID: "H4", Title: "Looking whose it is, and then deleting",
			Happens: "A release looks whose the lock is in one request, and deletes it in a second one. If the lock ends between the two and somebody else takes it, " +
				"the second request deletes theirs. A pause of the process at that moment is enough.",
			Do:       "Compare and delete in one step: with a script, a transaction that watches the key (as article 001 has it), or a conditional request. lockport does so on every backend.",
			Articles: []string{"003"},
		},
		{
			ID: "H5", Title: "Two owners with the same name",
			Happens: "The lock says whose it is by a random number of four digits, or by the number of a thread, which is the same in many processes. " +
				"Two owners then have the same name, and one releases or renews the other's lock: comparing does not help.",
			Do:       "Draw each owner's name from so many that none comes twice. lockport draws 128 random bits for every acquisition.",
			Articles: []string{"003", "004"},
		},
		{
			ID: "H6", Title: "The holder works for longer than its lock lasts",
			Happens: "Work takes longer than was thought, or the process is stopped for a while (a pause of its machine, or of its memory's clean-up). Its lock ends, somebody else takes it, " +
				"and when the first one goes on it writes as if nothing had happened.",
			Do: "Renew while work is going on, stop when told that the lock is lost (Lost, Context), and send the lock's token along with each write, so that what is written to can " +
				"refuse an older one: package fence. Against a pause just before a write only the token helps.",
			Articles: []string{"003", "004"},
		},
		{
			ID: "H7", Title: "The master fails before it has copied the lock",
			Happens: "A server with a copy of itself (a replica) says yes before the copy has heard of the lock. If it dies then, the copy takes its place and knows nothing of it: " +
				"somebody else gets the lock while the first one still works.",
			Do: "Where two holders would do harm, use servers that say yes only when most of them have it (etcd, ZooKeeper, Redlock), or send tokens along with writes. On Redis the option replicas=1 waits for " +
				"the copy; locks of PostgreSQL and MariaDB are never copied.",
			Articles: []string{"002", "004"},
		},
		{
			ID: "H8", Title: "A server comes back without its data",
			Happens: "A server that keeps locks in memory alone, or whose disk was lost, starts again and knows of none. It grants anew what is held. Of several servers that vote, one is enough " +
				"if the holder had no vote to spare.",
			Do: "Have servers write locks to disk before they say yes (Redis: appendonly with appendfsync always). Keep one that lost its data away until every lock has ended (a delayed restart), and use tokens. " +
				"lockport doctor tells which servers keep nothing.",
			Articles: []string{"004"},
		},
		{
			ID: "H9", Title: "A server's clock jumps",
			Happens: "Redis notes the time of day at which a lock ends. If its clock is set forward, the lock ends early, and somebody else has it while the holder still works. " +
				"If it is set back, the lock of a process that died lasts for so much longer.",
			Do: "Let the clocks of Redis servers be corrected slowly, never in steps (slewing, in chrony or ntpd), and use tokens. lockport doctor measures how far a server's clock is off. " +
				"The other backends do not count by the time of day.",
			Articles: []string{"004"},
		},
		{
			ID: "H10", Title: "A slow server eats up the lock's time",
			Happens: "The time that it takes to get a lock is part of the time for which it lasts. Who waits long for a server that is slow or dead, and counts the lock's time only from the last answer, " +
				"believes in a lock that has ended on the servers.",
			Do: "Count from when the first request was sent, ask all servers at once, wait for each only briefly, and give up if too little time is left. lockport does so; " +
				"Deadline says until when a lock is certain.",
			Articles: []string{"002", "004"},
		},
		{
			ID: "H11", Title: "Waiting keeps the server busy",
			Happens: "Everybody who waits asks the server again after a few milliseconds. A hundred who wait send it tens of thousands of requests a second, all in vain, and slow down the one that has the lock, " +
				"so that they wait for longer still.",
			Do: "Have those who wait told when the lock is free. lockport waits in the server's own queue or for its messages where there are any, and a process sends one waiter for each lock, " +
				"however many of its goroutines wait.",
			Articles: []string{"000", "001", "004"},
		},
		{
			ID: "H12", Title: "The server is away when a lock is acquired or released",
			Happens: "The server does not answer, or connections to it break. A client without time limits hangs; one that takes every failure for \"somebody else has it\" tells nobody that the server is away; " +
				"and one that ignores the failure of a release takes a lock for free that is not.",
			Do: "Give each request a time limit, and tell failures apart: ErrUnavailable is not ErrHeld. With lockport Acquire ends with its context and Release within 5 s, each with an error that says " +
				"which it is, and what was left undone is cleaned up when the server is back.",
			Articles: []string{"001"},
		},
		{
			ID: "H13", Title: "Somebody takes the lock away while it is held",
			Happens: "An operator deletes the key, removes the file or ends the session of a lock that is held. The holder does not know at once, somebody else gets the lock, " +
				"and what the first one then writes must not count.",
			Do: "Check the lock in the same step that writes: article 001 watches the key in the transaction of its work; lockport's fences (package fence) compare the token there. " +
				"And let Lost or Context stop the work: lockport tells the holder within a time that each backend states.",
			Articles: []string{"001"},
		},
		{
			ID: "H14", Title: "Taking a lock twice in one process",
			Happens: "Some libraries let the same thread take a lock again and count how often. If the count gets lost, or is not as deep as was thought, the lock is freed too early, or never. " +
				"And code that calls itself by accident works under a lock that it thinks is its own alone.",
			Do: "Know which your library does. lockport never hands out a lock twice: who asks for it again while it holds it waits, or gets ErrHeld; hand the Lock " +
				"to the functions that need it.",
			Articles: []string{"002"},
		},
		{
			ID: "H15", Title: "The holder crashes",
			Happens: "A process that has the lock is killed, or its machine fails. If the lock has no end of its own, it stays for ever; if it has one, " +
				"everybody waits until it comes.",
			Do: "Give every lock an end, and choose it by how long you can wait after a crash: lockport renews while the process lives, so that it may be short. Files, PostgreSQL and MariaDB free " +
				"the lock of a process that died within milliseconds.",
			Articles: []string{"000", "001", "002", "003", "004"},
		},
	}
}
