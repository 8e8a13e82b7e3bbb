//go:build darwin || freebsd

package file

import "syscall"

// mountLocal is MNT_LOCAL, the flag of file systems on the machine's own disks.
const mountLocal = 0x1000

// remoteFS names the shared file system that dir is on, empty if it is local; unsure: it cannot be determined.
func remoteFS(dir string) (kind string, unsure bool, err error) {
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
