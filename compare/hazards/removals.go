package hazards

import (
	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/play"
	"github.com/lockport/lockport/internal/lab/servers"
)

// The scripts of this file take a lock away from its holder.

// removal takes the lock on name away from its holder.
type removal = func(p *trial, name string)

// tampered takes the lock of A away at the server, and looks when A is told. Then it does so once more behind the back of A.
func tampered(remove removal) script {
	return func(p *trial) {
		w, name := p.Worker(), p.Name()+"-told"
		a := play.Must(w.Acquire(name, lasting))
		p.Wait(holding) // votes that are still on their way would give A its lock back
		begun := history.Now()
		remove(p, name)
		class, said := p.toldSince(a, begun)
		p.found(class, "When its lock was taken away, A %s.", said)
		p.behindTheBack(w, remove)
	}
}

// removed has an operator remove a lock of lockport's, and articleDeleted the key of an article's lock.
func removed(p *trial, name string) {
	p.Note("the lock is taken away")
	p.Removed(name)
	play.Check(p.Environment.Remove(p.Ctx, name))
}

func articleDeleted(p *trial, name string) {
	p.Note("the key is deleted")
	p.Removed(name)
	play.Must(p.Environment.Nodes()[0].(*servers.Redis).Do(p.Ctx, "DEL", "lock:"+name))
}

// folderReplaced puts an empty folder in the place of that with the locks.
func folderReplaced(p *trial, _ string) {
	p.Note("an empty folder takes the place of the one with the locks")
	folder := p.Environment.Servers.(*environment.Folder)
	play.Must(folder.MoveAway())
	play.Check(folder.Heal(p.Ctx))
}
