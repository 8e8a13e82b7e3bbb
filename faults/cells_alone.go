package faults

import (
	"fmt"

	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/internal/lab/play"
	"github.com/lockport/lockport/internal/lab/report"
)

// forgets is the only cell of environments with a single server that keeps its claims and its token counter on disk. With several servers, a majority
// would have to lose their disks.
func forgets(counter string) []play.Cell {
	return []play.Cell{{Fault: "server-restarted-empty", Outcome: report.Unsafe, Script: restartedEmpty, Tries: 3,
		Why: "A server without its data, or restored from a backup, grants held locks again. Its " + counter + " restarts, so tokens repeat: the resource must " +
			"forget the tokens it has seen."}}
}

// restartedEmpty has a worker acquire the lock repeatedly, keep it, and hear nothing more from the server. The server is killed, loses its data and
// restarts. Another worker acquires the lock with a token that is no greater.
func restartedEmpty(s *play.Phase) {
	older := s.Worker()
	const holds = 20 // more than a starting server counts on its own
	for range holds - 1 {
		s.Acquire(older).Release()
	}
	had := s.Acquire(older)
	older.Endpoint.Links.Each((*faultproxy.Proxy).Freeze)
	s.Injected()
	granting.wiped(s)
	s.Healed()
	has := s.Acquire(s.Worker()) // a ZooKeeper refuses clients that have seen later transactions, until they give up their session
	if has.Token > had.Token {
		play.Check(fmt.Errorf("after token %d came %d: the server has not forgotten everything", had.Token, has.Token))
	}
	s.Both(had, has)
}
