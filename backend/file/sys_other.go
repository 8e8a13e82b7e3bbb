//go:build !linux && !darwin && !freebsd

package file

import (
	"fmt"
	"io/fs"
	"runtime"

	"github.com/lockport/lockport/driver"
)

// errUnsupported is why this system cannot hold locks.
var errUnsupported = fmt.Errorf("%w: the file backend needs flock(2), which %s lacks; choose a lock server", driver.ErrRefused, runtime.GOOS)

func openLock(string, int) (*lockFile, error) { return nil, errUnsupported }
func (*lockFile) tryLock() error              { return errUnsupported }
func (*lockFile) tryShare() error             { return errUnsupported }
func (*lockFile) unlock() error               { return errUnsupported }
func ownerOf(fs.FileInfo) int                 { return -1 }
func allMayWrite(string) bool                 { return false }
func remoteFS(string) (string, bool, error)   { return "", false, errUnsupported }
