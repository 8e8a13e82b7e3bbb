//go:build unix

package worker

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// stopTime is how long a process may take to stop: a thread first completes its disk I/O.
const stopTime = 5 * time.Second

// Freeze stops p and, on systems with /proc, returns when every thread has stopped. Right after the signal alone, p could still answer.
func Freeze(p *os.Process) error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for deadline := time.Now().Add(stopTime); Running(p.Pid); time.Sleep(100 * time.Microsecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("process %d does not stop", p.Pid)
		}
	}
	return nil
}

// Thaw resumes a stopped process.
func Thaw(p *os.Process) error { return p.Signal(syscall.SIGCONT) }

// Running reports whether a thread of the process is neither stopped nor dead. See proc_pid_stat(5): the state follows the name in parentheses.
func Running(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, thread := range threads {
		stat, err := os.ReadFile(thread)
		if err != nil {
			continue // ended meanwhile
		}
		if i := bytes.LastIndex(stat, []byte(") ")); i >= 0 && !bytes.ContainsAny(stat[i+2:i+3], "TtZX") {
			return true
		}
	}
	return false
}
