//go:build unix

package servers

import (
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// lesser is the user as whom a server runs that refuses to run as root. nil: this process's.
type lesser struct{ uid, gid int }

// lesserUser is the first of the users named that exists, if this process is root's, and otherwise nil.
func lesserUser(names ...string) (*lesser, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range names {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.Atoi(u.Uid)
		gid, err2 := strconv.Atoi(u.Gid)
		if err1 == nil && err2 == nil {
			return &lesser{uid: uid, gid: gid}, nil
		}
	}
	return nil, fmt.Errorf("servers: none of the users %q exists, and the server refuses to run as root", names)
}

// attributes returns what a new process needs to run as l.
func (l *lesser) attributes() *syscall.SysProcAttr {
	if l == nil {
		return nil
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(l.uid), Gid: uint32(l.gid)}}
}

// own gives dir and all in it to l.
func (l *lesser) own(dir string) error {
	if l == nil {
		return nil
	}
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, l.uid, l.gid)
	})
}
