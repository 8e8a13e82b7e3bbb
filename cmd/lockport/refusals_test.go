//go:build linux || darwin

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRefusals lists what can be wrong with a command line: the exit code, and a piece of the one line that says so.
func TestRefusals(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	plain, noInterpreter, missing := filepath.Join(dir, "plain"), filepath.Join(dir, "no-interpreter"), filepath.Join(dir, "missing")
	require.NoError(t, os.WriteFile(plain, []byte("#!/bin/sh\n"), 0o600))
	require.NoError(t, os.WriteFile(noInterpreter, []byte("#!/no/such/interpreter\n"), 0o700))
	url := folder(t)
	long := strings.Repeat("x", 1025)
	for _, tt := range []struct {
		code int
		line string
		args []string
	}{
		{64, "the lock's name is missing", []string{"run"}},
		{64, "the command is missing", []string{"run", "a", "--"}},
		{64, "put -- between", []string{"run", "a", "true"}},
		{64, "--shared and --permits exclude each other", []string{"run", "--shared", "--permits", "2", "a", "--", "true"}},
		{64, "none twice", []string{"run", "a", "b", "a", "--", "true"}},
		{64, "the lock's name is empty", []string{"run", "", "--", "true"}},
		{64, "name", []string{"run", long, "--", "true"}},
		{64, "name", []string{"run", "a\xff", "--", "true"}},
		{64, `bad duration "soon"`, []string{"run", "-w", "soon", "a", "--", "true"}},
		{64, "exclude each other", []string{"run", "-n", "-w1s", "a", "--", "true"}},
		{64, "neither term nor ignore", []string{"run", "--on-lost", "cry", "a", "--", "true"}},
		{64, "half of the TTL", []string{"run", "--ttl=3s", "--kill-after=2s", "a", "--", "true"}},
		{64, "give at least 100ms", []string{"run", "--ttl=99ms", "a", "--", "true"}},
		{64, "known: etcd, etcds, file, memory, mysql, postgres, postgresql, redis", []string{"run", "--url", "rdis://localhost", "a", "--", "true"}},
		{64, "unknown scheme", []string{"run", "--url", "localhost:6379", "a", "--", "true"}},
		{64, "cannot be parsed", []string{"run", "--url", "redis://u:secret@host:port", "a", "--", "true"}},
		{64, `unknown URL parameter "prefix"`, []string{"run", "--url", "file:?prefix=x", "a", "--", "true"}},
		{69, "there is no lock folder", []string{"run", "--url", "file://" + missing, "a", "--", "true"}},
		{127, "command not found: no-such-command", []string{"run", "a", "--", "no-such-command"}},
		{127, "command not found: " + missing, []string{"run", "a", "--", missing}},
		{126, "permission denied", []string{"run", "a", "--", plain}},
		{126, "cannot start /", []string{"run", "a", "--", "/"}},
		{127, "cannot start " + noInterpreter, []string{"run", "a", "--", noInterpreter}},
		{64, `unknown verb "rum"; known: run, status, break, doctor`, []string{"rum", "a", "--", "true"}},
		{64, "the verb comes first, then its options: lockport VERB --url …; known: run, status", []string{"--url=redis://u:secret@host", "run", "a"}},

		{64, "one lock name", []string{"status", "a", "b"}},
		{64, "exclude each other", []string{"status", "--prefix", "a", "b"}},
		{64, "empty", []string{"status", ""}},
		{64, "1024", []string{"status", long}},
		{64, "UTF-8", []string{"status", "\xff"}},
		{64, "invisible to other processes", []string{"status", "--url", "memory:"}},
		{64, "speed", []string{"status", "--url", "redis://127.0.0.1:1?speed=high"}},
		{69, "refused", []string{"status", "--url", "redis://u:secret@127.0.0.1:1", "a"}},
		{69, "/nowhere/at/all", []string{"status", "--url", "file:///nowhere/at/all", "a"}},
		{69, "numbers", []string{"status", "--url", "postgres://u:secret@127.0.0.1:1/db?exact=true", "x"}},
		{64, "name is missing", []string{"break"}},
		{64, "one lock name", []string{"break", "--yes", "a", "b"}},
		{64, "--yes", []string{"break", "a"}},
		{64, "invisible to other processes", []string{"break", "--yes", "--url", "memory:", "a"}},
		{69, "refused", []string{"break", "--yes", "--url", "redis://u:secret@127.0.0.1:1", "a"}},

		{64, "options only", []string{"doctor", "x"}},
		{64, "options only", []string{"doctor", "--", "x"}},
		{64, `unknown scheme "gopher"`, []string{"doctor", "--url", "gopher://h"}},
		{64, "TTL", []string{"doctor", "--url", "etcd://h?ttl=1ms"}},
		{69, "is it running", []string{"doctor", "--url", "redis://:secret@127.0.0.1:1"}},
		{69, "there is no lock folder", []string{"doctor", "--url", "file:///no/such/folder"}},

		{64, "options only", []string{"conform", "file:"}},
		{64, "flag: error parsing regexp", []string{"conform", "--run", "("}},
		{64, "no case matches", []string{"conform", "--run", "^nothing$"}},
		{64, "at least 1s", []string{"conform", "--soak", "1ms"}},
		{64, "--soak runs no cases", []string{"conform", "--soak", "1s", "--short"}},
		{64, "give --soak", []string{"conform", "--goroutines", "9"}},
		{69, "there is no lock folder", []string{"conform", "--url", "file:///no/such/folder"}},

		{64, "", []string{"help", "nothing"}},
		{64, "", []string{"help", "run", "conform"}},
		{64, "", []string{"version", "x"}},
		{64, "", []string{"backends", "x"}},
	} {
		t.Run(tt.args[0]+" "+tt.line, func(t *testing.T) {
			t.Parallel()
			refuses(t, url, tt.code, tt.line, tt.args...)
		})
	}
}
