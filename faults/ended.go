package faults

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/play"
)

// removals is how often a lock is taken away in one play.
const removals = 8

// removed notes that the lock of a script is about to go.
func (s *scene) removed() { s.Note("%s%s", history.Removed, s.Name()) }

// removedOpenly ends claims of a worker at the server while its network is well: it must be told. With retaken another worker acquires the lock at once.
func removedOpenly(end act, retaken bool) act {
	return func(s *scene) {
		holder := s.worker()
		var next *play.Worker
		if retaken {
			next = s.worker()
		}
		for range removals {
			had := s.acquire(holder, 5)
			s.pause(0, 0.5) // at any moment of its renewals
			s.Injected()
			s.removed()
			end(s)
			if !retaken {
				s.disbelieved(had)
				continue
			}
			has := s.acquire(next, 5)
			s.both(had, has)
			s.disbelieved(had)
			s.release(has)
		}
	}
}

// endedBehindSilence has the link of a holder fall silent, ends its claim at the server, and has somebody else acquire the lock: the holder believes until
// its deadline, or until the link says what has happened.
func endedBehindSilence(end act) act {
	return func(s *scene) {
		older, newer := s.two()
		had := s.acquire(older, 1)
		older.Endpoint.Links.Each((*faultproxy.Proxy).Freeze)
		defer older.Endpoint.Links.Each((*faultproxy.Proxy).DropHeld)
		s.Injected()
		end(s)
		s.both(had, s.acquire(newer, 5))
	}
}

// overtaken has one worker acquire the lock, does damage to the servers, has another worker acquire it too, and then has both go on.
func overtaken(damage act) act {
	return func(s *scene) {
		older, newer := s.two()
		s.overtakes(older, newer, damage)
	}
}

// overtakes returns when the older worker has learned of the damage, or its hold has ended, and the lock is free.
func (s *scene) overtakes(older, newer *play.Worker, damage act) {
	had := s.acquire(older, 1)
	s.Injected()
	damage(s)
	s.Healed()
	has := must(newer.AcquireAtLast(s.ctx, s.Name(), 2*s.ttl, 10*s.ttl))
	s.both(had, has)
	s.disbelieved(had)
	s.release(has)
}

// overtakenTries is within how many plays two must believe to hold the lock. One is enough, unless the machine is so busy that the older holder's next renewal,
// a quarter of the TTL away at least, comes first.
const overtakenTries = 5

// contested makes one worker hold one more lock, and another try to get that lock all the time, while a fault is injected. Of the workers of a storm hardly
// any holds a lock at the moment that counts.
func contested(inject act) act {
	return func(s *scene) {
		keeper, rival := s.two()
		s.acquire(keeper, 1)
		trying, stop := context.WithCancel(s.ctx)
		var tries sync.WaitGroup
		tries.Go(func() {
			for trying.Err() == nil {
				if _, err := rival.TryAcquire(trying, s.Name(), s.ttl); err == nil {
					return
				}
				_ = s.Sleep(trying, 5*time.Millisecond)
			}
		})
		defer func() {
			stop()
			tries.Wait()
			check(errors.Join(keeper.Kill(), rival.Kill()))
		}()
		inject(s)
		s.pause(0.5, 0.5) // time for the rival to get what it ought not to
	}
}
