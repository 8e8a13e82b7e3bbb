package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOptionsParse(t *testing.T) {
	for _, tt := range []struct {
		args    []string
		want    runOptions
		wantErr string
	}{
		{args: []string{"a", "--", "true"}, want: runOptions{names: []string{"a"}, wait: -1}},
		{args: []string{"-n", "a", "--", "true"}, want: runOptions{names: []string{"a"}, once: true, wait: -1}},
		{args: []string{"a", "-n", "--", "true"}, want: runOptions{names: []string{"a"}, once: true, wait: -1}},
		{args: []string{"-w10s", "a", "--", "true"}, want: runOptions{names: []string{"a"}, wait: 10 * time.Second}},
		{args: []string{"--no-wait", "a", "--", "true"}, want: runOptions{names: []string{"a"}, once: true, wait: -1}},
		{args: []string{"--wait", "10s", "a", "--", "true"}, want: runOptions{names: []string{"a"}, wait: 10 * time.Second}},
		{args: []string{"-w", "10s", "a", "--", "true"}, want: runOptions{names: []string{"a"}, wait: 10 * time.Second}},
		{args: []string{"-w=10s", "a", "--", "true"}, want: runOptions{names: []string{"a"}, wait: 10 * time.Second}},
		{args: []string{"-w0s", "a", "--", "true"}, want: runOptions{names: []string{"a"}, once: true, wait: 0}},
		{args: []string{"--min-hold=2m", "a", "--", "true"}, want: runOptions{names: []string{"a"}, wait: -1, minHold: 2 * time.Minute}},
		{args: []string{"--min-hold", "2m", "a", "--", "true"}, want: runOptions{names: []string{"a"}, wait: -1, minHold: 2 * time.Minute}},
		{args: []string{"--on-lost", "ignore", "a", "--", "true"}, want: runOptions{names: []string{"a"}, wait: -1, ignore: true}},
		{args: []string{"--url", "memory:", "a", "--", "true"}, want: runOptions{names: []string{"a"}, wait: -1, url: "memory:"}},
		{args: []string{"--shared", "b", "a", "--", "true"}, want: runOptions{names: []string{"b", "a"}, wait: -1, shared: true}},
		{args: []string{"--permits", "3", "a", "--", "true"}, want: runOptions{names: []string{"a"}, wait: -1, permits: 3}},
		{args: []string{"-", "--", "true"}, want: runOptions{names: []string{"-"}, wait: -1}},
		{args: []string{"a", "--", "-n", "--", "-w"}, want: runOptions{names: []string{"a"}, wait: -1, command: []string{"-n", "--", "-w"}}},

		{args: []string{"-x", "a", "--", "true"}, wantErr: "unknown shorthand flag: 'x' in -x; try: lockport run --help"},
		{args: []string{"--url=", "a", "--", "true"}, wantErr: `invalid argument "" for "--url" flag: the URL is empty: give a lock server's, or file: for files of this machine; try: lockport run --help`},
		{args: []string{"a", "-w"}, wantErr: "flag needs an argument: 'w' in -w; try: lockport run --help"},
		{args: []string{"-w", "10", "a", "--", "true"}, wantErr: `invalid argument "10" for "-w, --wait" flag: bad duration "10": want something like 10s, 1m30s or 250ms; try: lockport run --help`},
		{args: []string{"-w-1s", "a", "--", "true"}, wantErr: `invalid argument "-1s" for "-w, --wait" flag: "-1s" is negative; try: lockport run --help`},
		{args: []string{"--ttl", "0s", "a", "--", "true"}, wantErr: `invalid argument "0s" for "--ttl" flag: "0s" is too short: want at least 1ms; try: lockport run --help`},
	} {
		want := tt.want
		if want.command == nil {
			want.command = []string{"true"}
		}
		if want.url == "" {
			want.url = "file:"
		}
		want.ttl, want.killAfter = 15*time.Second, 5*time.Second
		t.Setenv("LOCKPORT_URL", "")
		got, err := parseRun(tt.args)
		if tt.wantErr != "" {
			require.EqualError(t, err, tt.wantErr, "%q", tt.args)
			require.Equal(t, exitUsage, err.(*exitError).code, "%q", tt.args)
			continue
		}
		require.NoError(t, err, "%q", tt.args)
		require.Equal(t, want, got, "%q", tt.args)
	}
}

func TestKillAfterFollowsTheTTL(t *testing.T) {
	parseWith := func(args ...string) (runOptions, error) { return parseRun(append(args, "a", "--", "true")) }

	o, err := parseWith("--ttl=9s")
	require.NoError(t, err)
	require.Equal(t, 3*time.Second, o.killAfter)

	o, err = parseWith("--url=redis://localhost?ttl=6s")
	require.NoError(t, err)
	require.Equal(t, 6*time.Second, o.ttl)
	require.Equal(t, 2*time.Second, o.killAfter)

	o, err = parseWith("--url=redis://localhost?ttl=6s", "--ttl=9s", "--kill-after=4s")
	require.NoError(t, err)
	require.Equal(t, 9*time.Second, o.ttl)
	require.Equal(t, 4*time.Second, o.killAfter)

	_, err = parseWith("--url=redis://localhost?ttl=6s", "--kill-after=3s")
	require.ErrorContains(t, err, "--kill-after: 3s is not below half of the TTL, 6s")
	_, err = parseWith("--kill-after=7500ms")
	require.ErrorContains(t, err, "half of the TTL, 15s")
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
		url, file     string // in the environment
		want, wantErr string
	}{
		{want: "file:"},
		{url: "memory:", want: "memory:"},
		{file: good, want: "redis://:secret@localhost"},
		{args: []string{"--url-file", good}, url: "memory:", want: "redis://:secret@localhost"},
		{args: []string{"--url", "memory:"}, file: good, want: "memory:"},
		{args: []string{"--url", "memory:", "--url-file", good}, wantErr: "options --url and --url-file exclude each other"},
		{url: "memory:", file: good, wantErr: "LOCKPORT_URL and LOCKPORT_URL_FILE exclude each other"},
		{args: []string{"--url-file="}, wantErr: "flag: the name of the file is empty"},
		{args: []string{"--url-file", good + "s"}, wantErr: "the file with the URL: open " + good + "s: no such file or directory"},
		{args: []string{"--url-file", write("secret one\nsecret two\n")}, wantErr: "must hold one line: the URL of a lock server"},
		{args: []string{"--url-file", write(" \n")}, wantErr: "must hold one line: the URL of a lock server"},
		{args: []string{"--url-file", "/dev/zero"}, wantErr: "the file /dev/zero must hold one line: the URL of a lock server"},
	} {
		t.Setenv("LOCKPORT_URL", tt.url)
		t.Setenv("LOCKPORT_URL_FILE", tt.file)
		got, err := parseStatus(tt.args)
		if tt.wantErr != "" {
			require.ErrorContains(t, err, tt.wantErr, "%q", tt.args)
			require.NotContains(t, err.Error(), "secret")
			require.Equal(t, exitUsage, err.(*exitError).code, "%q", tt.args)
			continue
		}
		require.NoError(t, err, "%q", tt.args)
		require.Equal(t, tt.want, got.url, "%q", tt.args)
	}
}

func TestMessagesAreOneLine(t *testing.T) {
	require.Equal(t, "a b c", oneLine("lockport: a\n b\tc\n"))
}
