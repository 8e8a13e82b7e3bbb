package stage

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// jiffy is the unit of times in /proc/PID/stat: a hundredth of a second on all systems that Go runs on.
const jiffy = 10 * time.Millisecond

// tree is what a process and its descendants have used: Postgres has a process for each connection, whose time is its parent's when it has ended.
func tree(pid int) (cpu time.Duration, memory int64) {
	children := make(map[int][]int)
	of := make(map[int]process)
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range stats {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		if p, ok := parse(text); ok {
			of[p.pid] = p
			children[p.parent] = append(children[p.parent], p.pid)
		}
	}
	for todo := []int{pid}; len(todo) > 0; todo = todo[1:] {
		p := of[todo[0]]
		cpu += max(p.own, threads(p.pid)) + p.childrens
		memory += private(todo[0])
		todo = append(todo, children[todo[0]]...)
	}
	return cpu, memory
}

type process struct {
	pid, parent    int
	own, childrens time.Duration // of children that have ended
}

// parse takes what is needed from /proc/PID/stat: see proc_pid_stat(5). The name stands in parentheses, and may have any characters.
func parse(stat []byte) (p process, ok bool) {
	open, end := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
	if open < 0 || end < open {
		return p, false
	}
	fields := bytes.Fields(stat[end+1:]) // the first is field 3, the state
	if len(fields) < 15 {
		return p, false
	}
	number := func(b []byte) int {
		n, _ := strconv.Atoi(string(b))
		return n
	}
	p.pid, p.parent = number(bytes.TrimSpace(stat[:open])), number(fields[1])
	p.own = time.Duration(number(fields[11])+number(fields[12])) * jiffy
	p.childrens = time.Duration(number(fields[13])+number(fields[14])) * jiffy
	return p, true
}

// threads is what the threads of a process that have not ended have used, to the nanosecond: what hundreds of processes have used since they were last
// looked at may be less than a jiffy in each.
func threads(pid int) (cpu time.Duration) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		var ran time.Duration
		if _, err := fmt.Sscan(string(text), &ran); err == nil {
			cpu += ran
		}
	}
	return cpu
}

// private is what memory a process has to itself: what Postgres' processes share would count for each of them.
func private(pid int) (bytes int64) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	var size, resident, shared int64
	if _, err := fmt.Sscan(string(text), &size, &resident, &shared); err != nil {
		return 0
	}
	return (resident - shared) * int64(os.Getpagesize())
}
