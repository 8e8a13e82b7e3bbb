//go:build linux || darwin

package main

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// watch may reap the command. Its status counts.
func TestReapKeepsTheStatusThatWatchTook(t *testing.T) {
	cmd := exec.Command("sh", "-c", "exit 7")
	require.NoError(t, cmd.Start())
	stops := make(chan syscall.Signal)
	close(stops)
	c := &child{group: cmd.Process.Pid, stops: stops}
	_, err := syscall.Wait4(c.group, &c.status, 0, nil) // as watch does
	require.NoError(t, err)
	require.Equal(t, 7, c.reap().ExitStatus())
}

// A command that is stopped by SIGSTOP has not ended.
func TestWatchReportsSIGSTOP(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	require.NoError(t, cmd.Start())
	stops := make(chan syscall.Signal)
	c := &child{group: cmd.Process.Pid, stops: stops}
	go func() { c.watch(stops); close(stops) }()
	require.NoError(t, syscall.Kill(c.group, syscall.SIGSTOP))
	signal, running := <-stops
	require.True(t, running)
	require.Equal(t, syscall.SIGSTOP, signal)
	require.NoError(t, syscall.Kill(c.group, syscall.SIGKILL))
	_, running = <-stops
	require.False(t, running)
	require.Equal(t, syscall.SIGKILL, c.reap().Signal())
}

// A group of another user's processes, which cannot be signalled, is alive.
func TestGroupAliveOfAnotherUser(t *testing.T) {
	out, err := exec.Command("ps", "-axo", "uid=,pgid=,stat=").Output()
	require.NoError(t, err)
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		if len(f) < 3 || f[0] != "0" || f[2][0] == 'Z' {
			continue
		}
		if group, _ := strconv.Atoi(f[1]); group > 1 && syscall.Kill(-group, 0) == syscall.EPERM {
			require.True(t, groupAlive(group))
			return
		}
	}
	require.True(t, groupAlive(syscall.Getpgrp()), "root can signal every process")
}
