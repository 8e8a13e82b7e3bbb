package file

import (
	"os"
	"syscall"
)

// The turnstile is a lock of the descriptor (F_OFD_SETLK) on the first byte of the lock file. Local file systems keep such locks
// apart from those of flock(2), which alone decide who holds the name: the turnstile only says who of those that wait is next.
// As flock's, it is gone when its process is.
const (
	hasTurnstile = true

	ofdGetLock = 36 // F_OFD_GETLK
	ofdSetLock = 37 // F_OFD_SETLK
)

func turnstile(f *os.File, cmd int, kind int16) (*syscall.Flock_t, error) {
	lock := &syscall.Flock_t{Type: kind, Len: 1}
	return lock, syscall.FcntlFlock(f.Fd(), cmd, lock)
}

// takeTurnstile makes f the next one, if nobody is, and says whether it is now.
func takeTurnstile(f *os.File) bool {
	_, err := turnstile(f, ofdSetLock, syscall.F_WRLCK)
	return err == nil
}

// leaveTurnstile lets another be next.
func leaveTurnstile(f *os.File) { _, _ = turnstile(f, ofdSetLock, syscall.F_UNLCK) }

// isTurnstileTaken says that another than f is next. A file system without such locks has nobody next.
func isTurnstileTaken(f *os.File) bool {
	lock, err := turnstile(f, ofdGetLock, syscall.F_WRLCK)
	return err == nil && lock.Type != syscall.F_UNLCK
}

// shared are the file systems whose locks other machines have a part in, by the number that statfs(2) gives (linux/magic.h and
// the file systems' sources).
var shared = map[uint32]string{
	0x6969:     "NFS",
	0x517b:     "SMB",
	0xff534d42: "CIFS",
	0xfe534d42: "SMB2",
	0x01021997: "9p",
	0x5346414f: "AFS",
	0x6b414653: "AFS",
	0x73757245: "Coda",
	0x564c:     "NCP",
	0x00c36400: "Ceph",
	0x01161970: "GFS2",
	0x7461636f: "OCFS2",
	0x0bd00bd0: "Lustre",
	0x47504653: "GPFS",
	0x19830326: "BeeGFS",
	0x20030528: "OrangeFS",
	0x786f4256: "VirtualBox shared folder",
	0x7c7c6673: "Parallels shared folder",
	0xbacbacbc: "VMware shared folder",
}

// fuse is the number of every file system in user space, of which nothing more is known.
const fuse = 0x65735546

// remoteness is the kind of the shared file system that dir is on, empty if it is local; unsure says that this cannot be told.
func remoteness(dir string) (kind string, unsure bool, err error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return "", false, err
	}
	return shared[uint32(st.Type)], uint32(st.Type) == fuse, nil
}
