//go:build linux || darwin

package main

import (
	"cmp"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/compare"
	"github.com/lockport/lockport/internal/lab/peer"
)

func TestRunOptions(t *testing.T) {
	t.Setenv("LOCKPORT_URL", "") // so that it is restored
	require.NoError(t, os.Unsetenv("LOCKPORT_URL"))
	for _, tt := range []struct {
		args []string
		want runOptions
	}{
		{[]string{"a", "--", "true"}, runOptions{names: []string{"a"}, wait: -1}},
		{[]string{"a", "-n", "--", "-n", "--", "-w"}, runOptions{names: []string{"a"}, command: []string{"-n", "--", "-w"}}},
		{[]string{"-w10s", "-", "--", "true"}, runOptions{names: []string{"-"}, wait: 10 * time.Second}},
		{[]string{"--ttl=9s", "a", "--", "true"}, runOptions{names: []string{"a"}, wait: -1, ttl: 9 * time.Second, killAfter: 3 * time.Second}},
		{[]string{"--url=redis://h?ttl=6s", "a", "--", "true"},
			runOptions{names: []string{"a"}, wait: -1, url: "redis://h?ttl=6s", ttl: 6 * time.Second, killAfter: 2 * time.Second}},
		{[]string{"--url=redis://h?ttl=6s", "--ttl=9s", "--kill-after=4s", "a", "--", "true"},
			runOptions{names: []string{"a"}, wait: -1, url: "redis://h?ttl=6s", ttl: 9 * time.Second, killAfter: 4 * time.Second}},
	} {
		if tt.want.command == nil {
			tt.want.command = []string{"true"}
		}
		tt.want.url = cmp.Or(tt.want.url, "file:")
		tt.want.ttl = cmp.Or(tt.want.ttl, 15*time.Second)
		tt.want.killAfter = cmp.Or(tt.want.killAfter, 5*time.Second)
		require.Equal(t, tt.want, peer.Must(parseRun(tt.args))(t), "%q", tt.args)
	}
}

func TestURLComesFromAFile(t *testing.T) {
	write := func(text string) string {
		file := filepath.Join(t.TempDir(), "url")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		return file
	}
	good := write("redis://:secret@localhost\n")
	for _, tt := range []struct {
		args          []string
		url, file     string // in the environment; "": not set
		want, wantErr string
	}{
		{want: "file:"},
		{url: "memory:", want: "memory:"},
		{file: good, want: "redis://:secret@localhost"},
		{args: []string{"--url-file", good}, url: "memory:", want: "redis://:secret@localhost"},
		{args: []string{"--url", "memory:"}, file: good, want: "memory:"},
		{args: []string{"--url", "memory:", "--url-file", good}, wantErr: "options --url and --url-file exclude each other"},
		{args: []string{"--url="}, wantErr: "the URL is empty: give that of a lock server, or file: for files of this machine"},
		{url: "memory:", file: good, wantErr: "LOCKPORT_URL and LOCKPORT_URL_FILE exclude each other"},
		{url: " ", wantErr: "LOCKPORT_URL or LOCKPORT_URL_FILE is empty"},
		{url: "memory:", file: " ", want: "memory:"},
		{file: " ", wantErr: "LOCKPORT_URL or LOCKPORT_URL_FILE is empty"},
		{file: "redis://localhost?password=secret", wantErr: "the name of a file"},
		{file: "user:secret@localhost", wantErr: "the name of a file"},
		{args: []string{"--url-file="}, wantErr: "the URL cannot be read: open : no such file or directory"},
		{args: []string{"--url-file", good + "s"}, wantErr: "the URL cannot be read: open " + good + "s: no such file or directory"},
		{args: []string{"--url-file", write("secret one\nsecret two\n")}, wantErr: "must hold one line: the URL of a lock server"},
		{args: []string{"--url-file", write(" \n")}, wantErr: "must hold one line: the URL of a lock server"},
	} {
		for name, value := range map[string]string{"LOCKPORT_URL": tt.url, "LOCKPORT_URL_FILE": tt.file} {
			t.Setenv(name, strings.TrimSpace(value))
			if value == "" {
				require.NoError(t, os.Unsetenv(name))
			}
		}
		options := newOptions("status")
		server := options.server()
		require.NoError(t, options.parse(tt.args))
		got, err := server.url()
		if tt.wantErr != "" {
			require.ErrorContains(t, err, tt.wantErr, "%q", tt.args)
			require.NotContains(t, err.Error(), "secret")
			require.Equal(t, exitUsage, err.(*exitError).code, "%q", tt.args)
			continue
		}
		require.NoError(t, err, "%q", tt.args)
		require.Equal(t, tt.want, got, "%q", tt.args)
	}
}

// TestRefusals lists wrong command lines, with the exit code and a part of the one-line message.
func TestRefusals(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	plain, noInterpreter, missing := filepath.Join(dir, "plain"), filepath.Join(dir, "no-interpreter"), filepath.Join(dir, "missing")
	require.NoError(t, os.WriteFile(plain, []byte("#!/bin/sh\n"), 0o600))
	require.NoError(t, os.WriteFile(noInterpreter, []byte("#!/no/such/interpreter\r\n"), 0o700))
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
		{64, "want a number of at least 1", []string{"run", "--permits", "0", "a", "--", "true"}},
		{64, "none twice", []string{"run", "a", "b", "a", "--", "true"}},
		{64, "the lock's name is empty", []string{"run", "", "--", "true"}},
		{64, "name", []string{"run", long, "--", "true"}},
		{64, "name", []string{"run", "a\xff", "--", "true"}},
		{64, `"soon" for "-w, --wait" option: want a duration`, []string{"run", "-w", "soon", "a", "--", "true"}},
		{64, "exclude each other", []string{"run", "-n", "-w1s", "a", "--", "true"}},
		{64, "neither term nor ignore", []string{"run", "--on-lost", "cry", "a", "--", "true"}},
		{64, "half of the TTL", []string{"run", "--ttl=3s", "--kill-after=2s", "a", "--", "true"}},
		{64, "want a duration of at least 100ms and at most 73 years", []string{"run", "--ttl=99ms", "a", "--", "true"}},
		{64, "give at least 100ms", []string{"run", "--url", "memory:?ttl=99ms", "a", "--", "true"}},
		{64, "known: etcd, etcds, file, memory, mysql, postgres, postgresql, redis", []string{"run", "--url", "rdis://localhost", "a", "--", "true"}},
		{64, "unknown scheme", []string{"run", "--url", "localhost:6379", "a", "--", "true"}},
		{64, "unknown scheme", []string{"compare", "--url", "gopher://h", "--out", filepath.Join(dir, "report")}},
		{64, "cannot be parsed", []string{"run", "--url", "redis://u:secret@host:port", "a", "--", "true"}},
		{64, "the port in the lock URL is greater than 65535", []string{"run", "--url", "table+mysql://u:secret@host:65536/db", "a", "--", "true"}},
		{64, "unknown option -u", []string{"doctor", "-url=redis://:secret@h"}},
		{64, "bad syntax", []string{"doctor", "---url=redis://:secret@h"}},
		{64, "the name of a file", []string{"doctor", "--url-file", "redis://:secret@h"}},
		{64, "percent-encode", []string{"doctor", "--url", "etcd:/user:secret@h:2379"}},
		{64, "percent-encode", []string{"doctor", "--url", "redis:///:secret@h:6379"}},
		{64, `unknown URL parameter "prefix"`, []string{"run", "--url", "file:?prefix=x", "a", "--", "true"}},
		{69, "there is no lock folder", []string{"run", "--url", "file://" + missing, "a", "--", "true"}},
		{69, plain + " is not a folder", []string{"run", "--url", "file://" + plain, "a", "--", "true"}},
		{127, "command not found: no-such-command", []string{"run", "a", "--", "no-such-command"}},
		{127, "command not found: " + missing, []string{"run", "a", "--", missing}},
		{69, "no-such-host.invalid", []string{"run", "--url", "redis://no-such-host.invalid", "a", "--", "true"}},
		{69, "refused", []string{"run", "--url", "postgres://u:secret@127.0.0.1:1/db", "a", "--", "true"}},
		{64, "the lockport command has none", []string{"run", "--url", "table+sqlite:///tmp/locks.db", "a", "--", "true"}},
		{126, "permission denied", []string{"run", "a", "--", plain}},
		{126, "cannot start /", []string{"run", "a", "--", "/"}},
		{127, "cannot start " + noInterpreter + `: its interpreter "/no/such/interpreter\r": no such file`, []string{"run", "a", "--", noInterpreter}},
		{64, `unknown verb "rum"; known: run, status, break, doctor`, []string{"rum", "a", "--", "true"}},
		{64, "the verb comes first, then its options: lockport VERB --url …; known: run, status", []string{"--url=redis://u:secret@host", "run", "a"}},

		{64, "one lock name", []string{"status", "a", "b"}},
		{64, "exclude each other", []string{"status", "--prefix", "a", "b"}},
		{64, "empty", []string{"status", ""}},
		{64, "1024", []string{"status", long}},
		{64, "UTF-8", []string{"status", "\xff"}},
		{64, "invisible to other processes", []string{"status", "--url", "memory:"}},
		{64, "invisible to other processes", []string{"run", "--url", "memory:", "a", "--", "true"}},
		{64, "invisible to other processes", []string{"run", "--keep", "--url", "memory:", "a", "--", "true"}},
		{64, "speed", []string{"status", "--url", "redis://127.0.0.1:1?speed=high"}},
		{69, "refused", []string{"status", "--url", "redis://u:secret@127.0.0.1:1", "a"}},
		{69, "/nowhere/at/all", []string{"status", "--url", "file:///nowhere/at/all", "a"}},
		{69, "numbers", []string{"status", "--url", "postgres://u:secret@127.0.0.1:1/db?exact=true", "x"}},
		{64, "name is missing", []string{"break"}},
		{64, "one lock name", []string{"break", "--yes", "a", "b"}},
		{64, "--yes", []string{"break", "a"}},
		{64, "the owner's id is empty", []string{"break", "--yes", "--owner", "", "a"}},
		{64, "invisible to other processes", []string{"break", "--yes", "--url", "memory:", "a"}},

		{64, "options only", []string{"doctor", "x"}},
		{64, "options only", []string{"doctor", "--"}},
		{64, "TTL", []string{"doctor", "--url", "etcd://h?ttl=1ms"}},
		{69, "is it running", []string{"doctor", "--url", "redis://:secret@127.0.0.1:1"}},

		{64, "options only", []string{"conform", "file:"}},
		{64, "option: error parsing regexp", []string{"conform", "--run", "("}},
		{64, "no case matches", []string{"conform", "--run", "^nothing$"}},
		{64, "at least 1s", []string{"conform", "--soak", "1ms"}},
		{64, "--soak runs no cases", []string{"conform", "--soak", "1s", "--short"}},
		{64, "need --soak", []string{"conform", "--goroutines", "9"}},
		{64, "excludes --json", []string{"conform", "--list", "--json=-"}},
		{1, "the report cannot be written", []string{"conform", "--run", "^exclusion/two-backends$", "--json", filepath.Join(missing, "report")}},

		{64, `unknown scenario "H99"; known: hazards, costs, H1,`, []string{"compare", "--scenario", "H7,H99"}},
		{64, `unknown backend "oracle"; known: article, file, redis,`, []string{"compare", "--backend", "oracle"}},
		{64, "--url already chooses the backends", []string{"compare", "--url", "redis://u:secret@h", "--backend", "etcd"}},
		{64, "hazards harm servers, so they never run on those of --url", []string{"compare", "--url", "redis://u:secret@h", "--scenario", "H7,cycle"}},
		{64, "options only", []string{"compare", "redis://h"}},
		{64, "--out needs the name of a folder", []string{"compare", "--out", ""}},
		{64, "unknown option --fast", []string{"compare", "--fast"}},
		{64, "open no file: no such file", []string{"status", "--url-file", "no\x1bfile"}}, // no control characters
		{69, "cannot be reached", []string{"compare", "--url", "redis://:secret@127.0.0.1:1", "--out", filepath.Join(dir, "report")}},
		{1, "the report cannot be written: ", []string{"compare", "--scenario", "H14", "--out", filepath.Join(plain, "report")}},
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
	for _, excluded := range []string{"-n", "-w1s", "--shared", "--permits=2", "--on-lost=ignore", "another"} {
		refuses(t, url, 64, "--keep takes one name", "run", "--keep", excluded, "a", "--", "true")
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	code, all, _ := inside(t, "help")
	require.Equal(t, 0, code)
	for _, v := range verbs() {
		require.Contains(t, all, "\n  "+v.name+" ")
		for _, args := range [][]string{{v.name, "--help"}, {v.name, "-h"}, {"help", v.name}, {"--help", v.name}} {
			code, stdout, stderr := inside(t, args...)
			require.Equal(t, []any{0, v.help(), ""}, []any{code, stdout, stderr}, "%q", args)
		}
		require.True(t, strings.HasPrefix(v.help(), "Usage: lockport "+v.name), v.name)
		require.Contains(t, v.help(), "Example:\n  lockport "+v.name)
		for line := range strings.Lines(v.help()) {
			require.LessOrEqual(t, len(line), 130, line)
			for _, example := range regexp.MustCompile(`--url (\S+://\S+)`).FindAllStringSubmatch(line, -1) {
				require.NoError(t, peer.Must(openTarget(t.Context(), example[1]))(t).Close(), line)
			}
		}
	}
	_, comparing, _ := inside(t, "help", "compare")
	for _, choice := range append(compare.Subjects(), "hazards or costs; H1 to H15; "+strings.Join(compare.Scenarios()[17:], ", ")) {
		require.Contains(t, comparing, choice)
	}
	code, stdout, stderr := inside(t)
	require.Equal(t, []any{64, ""}, []any{code, stdout})
	require.Contains(t, stderr, "\n  run ")
}

func TestVersion(t *testing.T) {
	t.Parallel()
	stdout, _ := ran(t, 0, "file:", "version")
	require.Regexp(t, `^lockport \S+ go1\.\S+ \w+/\w+\n$`, stdout)
	same, _ := ran(t, 0, "file:", "--version")
	require.Equal(t, stdout, same)
}
