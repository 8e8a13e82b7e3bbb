package hazards

import (
	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/play"
)

// The scripts of this file remove a lock from its holder.

// tampered removes A's lock at the server, and observes when A is told. Then it does so again while A is stopped.
func tampered(remove play.Act) play.Act {
	return func(s *play.Phase) {
		w := s.Worker()
		a := holds(s, w) // votes still on their way would restore A's lock
		begun := history.Now()
		remove(s)
		class, said := toldSince(s, a, begun)
		found(s, class, "The lock was removed while A ran. A %s.", said)
		a.Release()
		losesItWhileStopped(s, w, remove)
	}
}

// removed has an operator remove a lockport lock, and articleDeleted the key of an article's lock.
func removed(s *play.Phase) {
	s.Note("the lock is removed")
	play.Check(s.Environment.Remove(s.Ctx, s.Name()))
}

func articleDeleted(s *play.Phase) {
	s.Note("the key is deleted")
	play.Must(s.Environment.Servers.(*environment.Redis).Do(s.Ctx, "DEL", "lock:"+s.Name()))
}
