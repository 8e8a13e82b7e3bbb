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
	"strings"
	"sync"
	"syscall"
)

// nobody is the user under which servers run when root runs this process. nil: servers run as the current user.
var nobody = sync.OnceValues(func() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("nobody")
	if err != nil {
		return nil, fmt.Errorf("servers: root's servers run as nobody: %w", err)
	}
	uid, err1 := strconv.Atoi(u.Uid)
	gid, err2 := strconv.Atoi(u.Gid)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, errors.Join(err1, err2)
})

// asNobody returns the attributes of a process that runs as nobody. Its folder is own's.
func asNobody() *syscall.SysProcAttr {
	user, _ := nobody() // an error was own's
	return &syscall.SysProcAttr{Credential: user}
}

// own makes nobody the owner of dir and everything in it. nobody must be able to enter dir.
func own(dir string) error {
	user, err := nobody()
	if err != nil || user == nil {
		return err
	}
	for above := filepath.Dir(dir); above != filepath.Dir(above); above = filepath.Dir(above) {
		if info, err := os.Stat(above); err != nil || info.Mode()&0o001 == 0 {
			return errors.Join(err, fmt.Errorf("servers: root's servers run as nobody, who cannot enter %s: set TMPDIR to another folder", above))
		}
	}
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, int(user.Uid), int(user.Gid)))
	})
}

// alive holds the write end of a pipe. When this process ends the pipe closes, which tells the shell below.
var alive = make(chan *os.File, 1)

// processFolder returns a folder for the folders of all servers. It is removed when this process ends, however it ends.
var processFolder = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp(os.Getenv(dataVariable), "lockport-servers-")
	if err != nil {
		return "", err
	}
	ours, theirs, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer func() { _ = ours.Close() }()
	// Servers may still be shutting down and writing, hence the retries.
	remover := exec.Command("/bin/sh", "-c", `cat; for try in 1 2 3 4 5 6 7 8 9; do rm -rf "$0" && exit; sleep 0.2; done`, dir)
	remover.Stdin, remover.SysProcAttr = ours, &syscall.SysProcAttr{Setpgid: true} // ^C must not reach it
	alive <- theirs
	return dir, errors.Join(os.Chmod(dir, 0o711), remover.Start())
})

// childrenOf returns the children of the stopped process pid: from /proc (proc_pid_task_children(5)), else from pgrep.
func childrenOf(pid int) (children []*os.Process) {
	list, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", pid))
	if err != nil {
		list, _ = exec.Command("pgrep", "-P", strconv.Itoa(pid)).Output()
	}
	for field := range strings.FieldsSeq(string(list)) {
		id, _ := strconv.Atoi(field)
		child, _ := os.FindProcess(id) // never fails on Unix
		children = append(children, child)
	}
	return children
}
