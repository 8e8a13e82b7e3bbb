package file

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// holderOf is the id of the process that locked a file with flock(2), as the kernel lists it, without touching the lock; 0 if it
// lists none: then nobody has locked it, or only a process of another PID namespace, or the file system numbers its devices in
// another way than stat(2) tells (overlayfs, btrfs).
func holderOf(f *os.File) int {
	var st syscall.Stat_t
	if syscall.Fstat(int(f.Fd()), &st) != nil {
		return 0
	}
	locks, err := os.Open("/proc/locks")
	if err != nil {
		return 0
	}
	defer locks.Close()
	dev := uint64(st.Dev)
	major, minor := dev>>8&0xfff|dev>>32&^0xfff, dev&0xff|dev>>12&^0xff
	file := fmt.Sprintf("%02x:%02x:%d", major, minor, st.Ino)
	for lines := bufio.NewScanner(locks); lines.Scan(); {
		// "7: FLOCK  ADVISORY  WRITE 1234 fe:00:567 0 EOF"; who waits has "->" in the second place.
		field := strings.Fields(lines.Text())
		if len(field) >= 6 && field[1] == "FLOCK" && field[5] == file {
			pid, _ := strconv.Atoi(field[4])
			return pid
		}
	}
	return 0
}
