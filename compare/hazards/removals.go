package hazards

import (
	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/play"
)

// The scripts of this file remove a lock from its holder.

// removal removes the lock on name from its holder.
type removal = func(s *play.Phase, name string)

// tampered removes A's lock at the server, and observes when A is told. Then it does so again while A is stopped.
func tampered(remove removal) play.Act {
	return func(s *play.Phase) {
		w, name := s.Worker(), s.Name()+"-told"
		a := play.Must(w.Acquire(name, maxWait))
		s.Wait(holding) // votes still on their way would restore A's lock
		begun := history.Now()
		remove(s, name)
		class, said := toldSince(s, a, begun)
		found(s, class, "The lock was removed while A ran. A %s.", said)
		losesItWhileStopped(s, w, remove)
	}
}

// removed has an operator remove a lockport lock, and articleDeleted the key of an article's lock.
func removed(s *play.Phase, name string) {
	s.Note("the lock is removed")
	play.Check(s.Environment.Remove(s.Ctx, name))
}

func articleDeleted(s *play.Phase, name string) {
	s.Note("the key is deleted")
	play.Must(s.Environment.Servers.(*environment.Redis).Do(s.Ctx, "DEL", "lock:"+name))
}

func folderReplaced(s *play.Phase, _ string) {
	s.Note("an empty folder replaces the folder of the locks")
	folder := s.Environment.Servers.(*environment.Folder)
	play.Must(folder.MoveAway())
	play.Check(folder.Heal(s.Ctx))
}
