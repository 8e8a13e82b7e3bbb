package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRunOptions(t *testing.T) {
	t.Setenv("LOCKPORT_URL", "")
	for _, tt := range []struct {
		args []string
		want runOptions
	}{
		{[]string{"a", "--", "true"}, runOptions{names: []string{"a"}, wait: -1}},
		{[]string{"a", "-n", "--", "-n", "--", "-w"}, runOptions{names: []string{"a"}, once: true, wait: -1, command: []string{"-n", "--", "-w"}}},
		{[]string{"-w10s", "-", "--", "true"}, runOptions{names: []string{"-"}, wait: 10 * time.Second}},
		{[]string{"-w0s", "a", "--", "true"}, runOptions{names: []string{"a"}, once: true}},
		{[]string{"--min-hold=2m", "--on-lost=ignore", "a", "--", "true"}, runOptions{names: []string{"a"}, wait: -1, minHold: 2 * time.Minute, ignore: true}},
		{[]string{"--shared", "b", "a", "--", "true"}, runOptions{names: []string{"b", "a"}, wait: -1, shared: true}},
		{[]string{"--permits", "3", "a", "--", "true"}, runOptions{names: []string{"a"}, wait: -1, permits: 3}},
		{[]string{"--ttl=9s", "a", "--", "true"}, runOptions{names: []string{"a"}, wait: -1, ttl: 9 * time.Second, ttlGiven: true, killAfter: 3 * time.Second}},
		{[]string{"--url=redis://h?ttl=6s", "a", "--", "true"},
			runOptions{names: []string{"a"}, wait: -1, url: "redis://h?ttl=6s", ttl: 6 * time.Second, killAfter: 2 * time.Second}},
		{[]string{"--url=redis://h?ttl=6s", "--ttl=9s", "--kill-after=4s", "a", "--", "true"},
			runOptions{names: []string{"a"}, wait: -1, url: "redis://h?ttl=6s", ttl: 9 * time.Second, ttlGiven: true, killAfter: 4 * time.Second}},
	} {
		if tt.want.command == nil {
			tt.want.command = []string{"true"}
		}
		if tt.want.url == "" {
			tt.want.url = "file:"
		}
		if tt.want.ttl == 0 {
			tt.want.ttl, tt.want.killAfter = 15*time.Second, 5*time.Second
		}
		got, err := parseRun(tt.args)
		require.NoError(t, err, "%q", tt.args)
		require.Equal(t, tt.want, got, "%q", tt.args)
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
		url, file     string // in the environment
		want, wantErr string
	}{
		{want: "file:"},
		{url: "memory:", want: "memory:"},
		{file: good, want: "redis://:secret@localhost"},
		{args: []string{"--url-file", good}, url: "memory:", want: "redis://:secret@localhost"},
		{args: []string{"--url", "memory:"}, file: good, want: "memory:"},
		{args: []string{"--url", "memory:", "--url-file", good}, wantErr: "options --url and --url-file exclude each other"},
		{args: []string{"--url="}, wantErr: "the URL is empty: give a lock server's, or file: for files of this machine"},
		{url: "memory:", file: good, wantErr: "LOCKPORT_URL and LOCKPORT_URL_FILE exclude each other"},
		{args: []string{"--url-file="}, wantErr: "the name of the file is empty"},
		{args: []string{"--url-file", good + "s"}, wantErr: "the file with the URL: open " + good + "s: no such file or directory"},
		{args: []string{"--url-file", write("secret one\nsecret two\n")}, wantErr: "must hold one line: the URL of a lock server"},
		{args: []string{"--url-file", write(" \n")}, wantErr: "must hold one line: the URL of a lock server"},
		{args: []string{"--url-file", "/dev/zero"}, wantErr: "the file /dev/zero is too long for one line with the URL of a lock server"},
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
