package servers

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// templates makes the first of several starts at once fill its folder, and the others copy that.
var templates sync.Mutex

// fromTemplate makes the folder dir. The first time fill makes it, which takes a database seconds; a copy stays in this
// user's cache folder, and all later calls, other processes' too, copy that. The copy is for one version of program and one
// recipe, which names what else it depends on.
func fromTemplate(dir, program, recipe string, fill func() error) error {
	templates.Lock()
	defer templates.Unlock()
	cache, err := os.UserCacheDir()
	if err != nil {
		return fill()
	}
	info, err := os.Stat(program)
	if err != nil {
		return err
	}
	key := sha256.Sum256(fmt.Append(nil, program, info.Size(), info.ModTime(), recipe))
	folder := filepath.Join(cache, "lockport", "servers")
	kept := filepath.Join(folder, fmt.Sprintf("%s-%x", filepath.Base(program), key[:6]))
	if _, err := os.Stat(kept); err == nil {
		return os.CopyFS(dir, os.DirFS(kept))
	}
	if err := fill(); err != nil {
		return err
	}
	// Without a copy the next start takes longer, and that is all.
	if os.MkdirAll(folder, 0o700) != nil {
		return nil
	}
	if half, err := os.MkdirTemp(folder, "half-"); err == nil {
		if os.CopyFS(half, os.DirFS(dir)) != nil || os.Rename(half, kept) != nil {
			_ = os.RemoveAll(half)
		}
	}
	return nil
}
