package hazards

import (
	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/play"
)

// The scripts of this file take a lock away from its holder.

// removal takes the lock on name away from its holder.
type removal = func(s *play.Phase, name string)

// tampered takes the lock of A away at the server, and looks when A is told. Then it does so once more behind the back of A.
func tampered(remove removal) play.Act {
	return func(s *play.Phase) {
		w, name := s.Worker(), s.Name()+"-told"
		a := play.Must(w.Acquire(name, lasting))
		s.Wait(holding) // votes that are still on their way would give A its lock back
		begun := history.Now()
		remove(s, name)
		class, said := toldSince(s, a, begun)
		found(s, class, "When its lock was taken away, A %s.", said)
		behindTheBack(s, w, remove)
	}
}

// removed has an operator remove a lock of lockport's, and articleDeleted the key of an article's lock.
func removed(s *play.Phase, name string) {
	s.Note("the lock is taken away")
	s.Removed(name)
	play.Check(s.Environment.Remove(s.Ctx, name))
}

func articleDeleted(s *play.Phase, name string) {
	s.Note("the key is deleted")
	s.Removed(name)
	play.Must(s.Environment.Servers.(*environment.Redis).Do(s.Ctx, "DEL", "lock:"+name))
}

// folderReplaced puts an empty folder in the place of that with the locks.
func folderReplaced(s *play.Phase, _ string) {
	s.Note("an empty folder takes the place of the one with the locks")
	folder := s.Environment.Servers.(*environment.Folder)
	play.Must(folder.MoveAway())
	play.Check(folder.Heal(s.Ctx))
}
