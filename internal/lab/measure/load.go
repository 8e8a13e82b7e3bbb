package measure

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// jiffy is the unit of times in /proc/PID/stat: 10 ms on all systems that Go supports.
const jiffy = 10 * time.Millisecond

// load returns the usage of a process and its descendants: Postgres has a process for each connection. Memory excludes shared pages, which would be
// counted once for each process. See proc_pid_stat(5).
func load(pid int) (cpu time.Duration, memory int64) {
	read := func(file string) string { text, _ := os.ReadFile(file); return string(text) } // empty when the process has ended
	// Threads' usage is known to the nanosecond. That matters for hundreds of processes that each used less than a jiffy.
	var threads time.Duration
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	for _, task := range tasks {
		var ran time.Duration
		_, _ = fmt.Sscan(read(task+"/schedstat"), &ran)
		threads += ran
		for _, child := range strings.Fields(read(task + "/children")) {
			n, _ := strconv.Atoi(child)
			c, m := load(n)
			cpu, memory = cpu+c, memory+m
		}
	}
	stat := read(fmt.Sprintf("/proc/%d/stat", pid))
	fields := strings.Fields(stat[strings.LastIndex(stat, ")")+1:]) // from the state on: the name before it may contain any characters
	var own, ended time.Duration                                    // of this process, and of its children that have ended
	if len(fields) > 14 {
		times := make([]int, 4)
		for i := range times {
			times[i], _ = strconv.Atoi(fields[11+i])
		}
		own, ended = time.Duration(times[0]+times[1])*jiffy, time.Duration(times[2]+times[3])*jiffy
	}
	var size, resident, shared int64
	_, _ = fmt.Sscan(read(fmt.Sprintf("/proc/%d/statm", pid)), &size, &resident, &shared)
	return cpu + max(own, threads) + ended, memory + (resident-shared)*int64(os.Getpagesize())
}
