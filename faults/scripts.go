package faults

import (
	"fmt"
	"time"

	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/play"
)

// removals is how often one play removes a lock.
const removals = 4

// removedOpenly ends claims of a worker at the server while the worker's network is healthy: the worker must be told before its deadline, which would
// end the hold anyway. With retaken, another worker acquires the lock at once.
func removedOpenly(end play.Act, retaken bool) play.Act {
	return func(s *play.Phase) {
		holder := s.Worker()
		var next *play.Worker
		if retaken {
			next = s.Worker()
		}
		for range removals {
			had := s.Acquire(holder)
			s.Pause(0, 0.5) // at any moment between renewals
			s.Injected()
			end(s)
			if !retaken {
				if e := had.Await(0, history.Told); e.At >= e.Deadline {
					play.Check(fmt.Errorf("%s was told of the loss %v after the deadline of its hold", e.Worker, e.At.Sub(e.Deadline)))
				}
				continue
			}
			has := s.Acquire(next)
			s.Both(had, has)
			had.Await(0, history.Told)
			has.Release()
		}
	}
}

// endedBehindSilence silences the link of a holder, ends its claim at the server, and has another worker acquire the lock. The holder believes it
// holds the lock until its deadline, or until the link reports the loss. before begins when both workers, the older one first, have started.
func endedBehindSilence(end play.Act, before ...play.Act) play.Act {
	return func(s *play.Phase) {
		older, newer := s.Worker(), s.Worker()
		play.InOrder(before...)(s)
		had := s.Acquire(older)
		defer s.Apart(older, "silent", older.Endpoint.Links, (*faultproxy.Proxy).Freeze)((*faultproxy.Proxy).DropHeld)
		s.Injected()
		end(s)
		s.Both(had, s.Acquire(newer))
	}
}

// holdElsewhere promotes the replica, and has a new worker acquire the lock there. The others stay with the old primary.
func holdElsewhere(s *play.Phase) *play.Hold {
	s.Injected()
	s.Note("the replica is promoted, and the old primary keeps running")
	play.Check(in[environment.Pair](s).Promote(s.Ctx))
	return s.Acquire(s.Worker())
}

// overtaken has one worker acquire the lock, damages the servers, and has another worker acquire it too. Then both go on, until the older worker knows
// of the damage, or its hold has ended, and the lock is free. before begins when both workers, the older one first, have started.
func overtaken(damage play.Act, before ...play.Act) play.Act {
	return func(s *play.Phase) {
		older, newer := s.Worker(), s.Worker()
		play.InOrder(before...)(s)
		had := s.Acquire(older)
		s.Injected()
		damage(s)
		s.Healed()
		has := play.Must(newer.AcquireAtLast(s.Name, 2*s.TTL, 10*s.TTL))
		s.Both(had, has)
		if s.Cell.Belief == 0 {
			had.Await(0, history.Told)
			has.Release()
		}
	}
}

// overtakenTries is within how many plays two must believe they hold the lock. One is enough, unless the machine is so busy that the older holder
// renews first. Its next renewal is at least a quarter of the TTL away.
const overtakenTries = 5

// contested has one extra worker hold a lock, and another one keep trying to get it, while a fault is injected. Few workers of a storm hold a lock at
// the moment of the fault.
func contested(inject play.Act) play.Act {
	return func(s *play.Phase) {
		keeper, rival := s.Worker(), s.Worker()
		s.Acquire(keeper)
		trying := s.Tries(rival, 5*time.Millisecond)
		defer func() {
			trying.Stop()
			keeper.Kill()
			rival.Kill()
		}()
		inject(s)
		s.Pause(0.5, 0.5) // time for the rival to get a lock it must not get
	}
}
