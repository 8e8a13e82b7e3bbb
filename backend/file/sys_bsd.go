//go:build darwin || freebsd

package file

import "syscall"

// mountLocal is MNT_LOCAL, the flag of file systems on this machine's own disks.
const mountLocal = 0x1000

// remoteness is the kind of the shared file system that dir is on, empty if it is local; unsure says that this cannot be told.
func remoteness(dir string) (kind string, unsure bool, err error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil || st.Flags&mountLocal != 0 {
		return "", false, err
	}
	for _, c := range st.Fstypename {
		if c == 0 {
			break
		}
		kind += string(rune(c))
	}
	return kind, false, nil
}
