package servers

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// templates serialises fromTemplate: the first of several concurrent starts fills its folder, and the others copy it.
var templates sync.Mutex

// fromTemplate creates the folder dir. The first call runs fill, which takes a database seconds, and keeps a copy in this user's cache folder.
// Later calls, also in other processes, copy that. A copy is for one version of program and one recipe, which names all other inputs.
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
	// Failing to keep a copy only makes the next start slower.
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
