package worlds

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	_ "github.com/lockport/lockport/backend/file" // what workers open
	"github.com/lockport/lockport/faults"
)

// fileNotice is within which time the holder of a file that is gone is told (docs/guarantees.md, P3b).
const fileNotice = 500 * time.Millisecond

// File is a folder of this machine's.
var File = faults.Arrangement{
	Name:          "file",
	Title:         "a folder of one machine",
	Backend:       "file",
	TTL:           time.Second, // it has no effect, but makes workers hold their locks for shorter times
	Sessions:      true,
	Tokens:        true,
	RemovalNotice: fileNotice,
	Local:         true,
	Start:         startFile,
	Cells: slices.Concat(faults.Common(true, faults.Cell{
		Fault: "holder-stopped", Why: "the lock of a process that is stopped (SIGSTOP) stays its own for as long as it exists",
	}), []faults.Cell{
		{
			Fault: "file-removed", Outcome: faults.UnsafeFenced, Gone: true, Script: goneUntilTold(removeLockFile), Tries: 5,
			Why: "who comes next makes a new file and locks that; the holder of the old one looks four times a second whether it is still there; the token protects",
		},
		{
			Fault: "folder-replaced", Outcome: faults.UnsafeFenced, Gone: true, Script: goneUntilTold(replaceFolder), Tries: 5,
			Why: "as if all files in it were removed; the tokens of new files begin at the time of day, which is ahead of those before",
		},
		{
			Fault: "folder-away", Outcome: faults.Unavailable, Strike: folderAway,
			Why: "holders are told that their files are gone, and nobody can lock what is not there",
		},
	}),
}

// folder is what the strikes on it work on.
type folder struct{ path string }

func startFile(context.Context) (*faults.World, error) {
	parent, err := os.MkdirTemp("", "lockport-faults-")
	if err != nil {
		return nil, err
	}
	f := &folder{path: filepath.Join(parent, "locks")}
	if err := f.mend(context.Background()); err != nil {
		return nil, errors.Join(err, os.RemoveAll(parent))
	}
	return &faults.World{
		Servers: f,
		Seat:    func() (*faults.Seat, error) { return &faults.Seat{URL: "file://" + f.path}, nil },
		Mend:    f.mend,
		Close:   func() error { return os.RemoveAll(parent) },
		Log:     func() string { return "" },
	}, nil
}

// mend makes the folder, if there is none. One that was moved away stays there, since holders may have it open.
func (f *folder) mend(context.Context) error {
	err := os.Mkdir(f.path, 0o700)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	return err
}

func folderOf(p *faults.Phase) *folder { return p.World.Servers.(*folder) }

// goneUntilTold takes the file of a holder away, by end, has somebody else acquire the lock at once, and waits until the holder knows.
func goneUntilTold(end func(ctx context.Context, p *faults.Phase, name string) error) func(ctx context.Context, p *faults.Phase) error {
	return func(ctx context.Context, p *faults.Phase) error {
		older, newer, err := p.Two(ctx)
		if err != nil {
			return err
		}
		for range removals {
			a, err := older.Acquire(ctx, p.Name(), 5*p.World.TTL)
			if err != nil {
				return err
			}
			if err := p.Sleep(ctx, p.Between(0, p.World.TTL/2)); err != nil { // at any moment between two looks
				return err
			}
			p.Struck()
			removed(p)
			if err := end(ctx, p, p.Name()); err != nil {
				return err
			}
			b, err := newer.Acquire(ctx, p.Name(), 5*p.World.TTL)
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

// removeLockFile removes the file of a lock, by the layout on the backend's page.
func removeLockFile(_ context.Context, p *faults.Phase, name string) error {
	files, err := filepath.Glob(filepath.Join(folderOf(p).path, fmt.Sprintf("*-%x.lock", sha256.Sum256([]byte(name)))))
	if err != nil || len(files) != 1 {
		return fmt.Errorf("the file of %q: %q %w", name, files, err)
	}
	return os.Remove(files[0])
}

// moveAway moves the folder to where nobody looks for it.
func (f *folder) moveAway() (to string, err error) {
	to, err = os.MkdirTemp(filepath.Dir(f.path), "old-")
	if err != nil {
		return "", err
	}
	to = filepath.Join(to, "locks")
	return to, os.Rename(f.path, to)
}

// replaceFolder has another folder, which is empty, take the place of that with the locks.
func replaceFolder(ctx context.Context, p *faults.Phase, _ string) error {
	if _, err := folderOf(p).moveAway(); err != nil {
		return err
	}
	return folderOf(p).mend(ctx)
}

// folderAway moves the folder away for longer than holders take to notice, and back.
func folderAway(ctx context.Context, p *faults.Phase) error {
	var away string
	return unavailableAfter(exactly(4*fileNotice), func(context.Context, *faults.Phase) (err error) {
		away, err = folderOf(p).moveAway()
		return err
	}, 0.1, 1, func(context.Context, *faults.Phase) error { return os.Rename(away, folderOf(p).path) })(ctx, p)
}
