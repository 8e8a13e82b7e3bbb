package faults

import (
	"context"
	"slices"

	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/play"
)

// fileCells are the faults of a folder of one machine.
var fileCells = slices.Concat(Common(true, play.Cell{
	Fault: "holder-stopped", Why: "the lock of a process that is stopped (SIGSTOP) stays its own for as long as it exists",
}), []play.Cell{
	{
		Fault: "file-removed", Outcome: play.UnsafeFenced, Gone: true, Script: goneUntilTold(remove), Tries: 5,
		Why: "who comes next makes a new file and locks that; the holder of the old one looks four times a second whether it is still there; the token protects",
	},
	{
		Fault: "folder-replaced", Outcome: play.UnsafeFenced, Gone: true, Script: goneUntilTold(replaceFolder), Tries: 5,
		Why: "as if all files in it were removed; the tokens of new files begin at the time of day, which is ahead of those before",
	},
	{
		Fault: "folder-away", Outcome: play.Unavailable, Inject: folderAway,
		Why: "holders are told that their files are gone, and nobody can lock what is not there",
	},
})

func folderIn(p *play.Phase) *environment.Folder { return p.Environment.Servers.(*environment.Folder) }

// goneUntilTold takes the file of a holder away, by end, has somebody else acquire the lock at once, and waits until the holder knows.
func goneUntilTold(end func(ctx context.Context, p *play.Phase, name string) error) func(ctx context.Context, p *play.Phase) error {
	return func(ctx context.Context, p *play.Phase) error {
		older, newer, err := p.Two(ctx)
		if err != nil {
			return err
		}
		for range removals {
			a, err := older.Acquire(ctx, p.Name(), 5*p.Environment.TTL)
			if err != nil {
				return err
			}
			if err := p.Sleep(ctx, p.Between(0, p.Environment.TTL/2)); err != nil { // at any moment between two looks
				return err
			}
			p.Injected()
			removed(p)
			if err := end(ctx, p, p.Name()); err != nil {
				return err
			}
			b, err := newer.Acquire(ctx, p.Name(), 5*p.Environment.TTL)
			if err != nil {
				return err
			}
			if err := p.Both(ctx, a, b); err != nil {
				return err
			}
			if err := disbelieves(ctx, a); err != nil {
				return err
			}
			if err := b.Release(ctx); err != nil {
				return err
			}
		}
		return nil
	}
}

// replaceFolder has another folder, which is empty, take the place of that with the locks.
func replaceFolder(ctx context.Context, p *play.Phase, _ string) error {
	if _, err := folderIn(p).MoveAway(); err != nil {
		return err
	}
	return folderIn(p).Heal(ctx)
}

// folderAway moves the folder away for longer than holders take to notice, and back.
func folderAway(ctx context.Context, p *play.Phase) error {
	var away string
	return unavailableAfter(exactly(4*environment.FileNotice), func(context.Context, *play.Phase) (err error) {
		away, err = folderIn(p).MoveAway()
		return err
	}, 0.1, 1, func(context.Context, *play.Phase) error { return folderIn(p).MoveBack(away) })(ctx, p)
}
