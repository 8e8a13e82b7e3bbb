//go:build unix

package servers

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
)

// lesser is the user nobody, as whom servers run if this process is root's. nil: they run as this process does.
type lesser struct{ uid, gid int }

var lesserUser = sync.OnceValues(func() (*lesser, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("nobody")
	if err != nil {
		return nil, fmt.Errorf("servers: a server never runs as root, and nobody else is there: %w", err)
	}
	uid, err1 := strconv.Atoi(u.Uid)
	gid, err2 := strconv.Atoi(u.Gid)
	if err1 != nil || err2 != nil {
		return nil, fmt.Errorf("servers: the user nobody has the ids %q, %q", u.Uid, u.Gid)
	}
	return &lesser{uid: uid, gid: gid}, nil
})

// attributes returns what a new process needs to run as l.
func (l *lesser) attributes() *syscall.SysProcAttr {
	if l == nil {
		return nil
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(l.uid), Gid: uint32(l.gid)}}
}

// own gives dir and all in it to l, who must be able to enter it.
func (l *lesser) own(dir string) error {
	if l == nil {
		return nil
	}
	for above := filepath.Dir(dir); ; above = filepath.Dir(above) {
		info, err := os.Stat(above)
		if err != nil {
			return err
		}
		if info.Mode()&0o001 == 0 {
			return fmt.Errorf("servers: servers of root's run as nobody, who cannot enter %s: set TMPDIR to another folder", above)
		}
		if above == filepath.Dir(above) {
			break
		}
	}
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, l.uid, l.gid)
	})
}

// alive keeps the pipe open whose end tells a shell that this process has ended.
var alive = make(chan *os.File, 1)

// lastingFolder is a folder that is removed when this process has ended, however it ends.
var lastingFolder = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "lockport-shared-")
	if err != nil {
		return "", err
	}
	ours, theirs, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer func() { _ = ours.Close() }()
	// The servers may be ending at the same time, and writing.
	remover := exec.Command("/bin/sh", "-c", `cat; for try in 1 2 3 4 5 6 7 8 9; do rm -rf "$0" && exit; sleep 0.2; done`, dir)
	remover.Stdin, remover.SysProcAttr = ours, &syscall.SysProcAttr{Setpgid: true} // ^C is not for it
	alive <- theirs
	return dir, errors.Join(os.Chmod(dir, 0o711), remover.Start())
})
