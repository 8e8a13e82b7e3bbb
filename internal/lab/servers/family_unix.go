//go:build unix

package servers

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/lockport/lockport/internal/lab/worker"
)

// childrenOf are the children of the process pid: from /proc, see proc_pid_stat(5), and where there is none from ps.
func childrenOf(pid int) []*os.Process {
	var children []*os.Process
	add := func(child, parent []byte) {
		if string(parent) != strconv.Itoa(pid) {
			return
		}
		if n, err := strconv.Atoi(string(child)); err == nil {
			if p, err := os.FindProcess(n); err == nil {
				children = append(children, p)
			}
		}
	}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range stats {
		stat, err := os.ReadFile(file)
		if i := bytes.LastIndex(stat, []byte(") ")); err == nil && i >= 0 {
			add([]byte(filepath.Base(filepath.Dir(file))), bytes.Fields(stat[i+2:])[1])
		}
	}
	if len(stats) == 0 {
		out, _ := exec.Command("ps", "-A", "-o", "pid=,ppid=").Output()
		for line := range bytes.Lines(out) {
			if f := bytes.Fields(line); len(f) == 2 {
				add(f[0], f[1])
			}
		}
	}
	return children
}

// waitGone waits until p, which was killed and is no child of ours, has ended.
func waitGone(p *os.Process) {
	for deadline := time.Now().Add(stopTime); worker.Running(p.Pid) && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
}
