package main

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/internal/lab/peer"
)

// testBreakAsks: on a terminal, break asks before it ends anything; only yes is yes. There, run names risks at the server.
func testBreakAsks(t *testing.T, server string) {
	onTerminal(t, server, program(), "run", "warned", "--", "true").says(t, "lockport: warning: ")
	holder := holds(t, server, "asked")
	for _, keys := range []string{"\n", "n\n", "ye\n", "\x04", "Yes\n"} {
		code, said := 1, "lockport: nothing was ended\n"
		if keys == "Yes\n" {
			code, said = 0, "lockport: ended: \"asked\" is no longer held by "
		}
		require.False(t, holder.ended())
		tt := onTerminal(t, server, program(), "break", "asked")
		tt.says(t, "End this hold? [y/N] ")
		require.Contains(t, tt.out.String(), fmt.Sprintf("pid %d, lockport", holder.Process.Pid))
		tt.types(t, keys)
		require.Equal(t, code, tt.code(t), tt.out.String())
		tt.says(t, said)
	}
	require.Equal(t, 79, holder.code(t))
}

// testBreakOfAHolderThatHasGone: before the answer, the holder releases the lock and another client gets it.
func testBreakOfAHolderThatHasGone(t *testing.T, url string) {
	first := holds(t, url+"?ttl=2s", "gone")
	tt := onTerminal(t, url, program(), "break", "gone")
	tt.says(t, "[y/N] ")
	first.ends(t, syscall.SIGKILL, -1)
	second := holds(t, url, "gone") // which takes the TTL, and so does the answer
	tt.types(t, "y\n")
	require.Equal(t, 1, tt.code(t), tt.out.String())
	tt.says(t, "lockport: nothing was ended: \"gone\" is no longer held by ")
	require.False(t, second.ended())
}

// testBreakOfASession: with several locks on one session, break ends nothing without --all-of-session.
func testBreakOfASession(t *testing.T, url string) {
	c := peer.Must(lockport.Open(t.Context(), url, lockport.Logger(nil), lockport.Label("batch")))(t)
	defer c.Close()
	var locks []*lockport.Lock
	for _, name := range []string{"one", "two", "three 3"} {
		locks = append(locks, peer.Holds(t, c, name))
	}
	stdout, stderr := ran(t, 69, url, "break", "--yes", "one")
	require.Empty(t, stdout)
	names := `: "three 3", "two"`
	if scheme(url) == "postgres" { // which does not know the names
		names = ""
	}
	require.Regexp(t, `lockport: nothing was ended: [^\n]* 2 other locks would be lost`+names+`; [^\n]*--all-of-session\n$`, stderr)
	for _, l := range locks {
		require.NoError(t, l.Err())
	}

	tt := onTerminal(t, url, program(), "break", "--all-of-session", "one")
	tt.says(t, "End this hold? [y/N] ")
	tt.types(t, "y\n")
	tt.says(t, "2 other locks would be lost")
	tt.says(t, "End the session? [y/N] ")
	tt.types(t, "y\n")
	tt.says(t, ", batch. ")
	require.Equal(t, 0, tt.code(t))
	for _, l := range locks {
		peer.Eventually(t, l.Lost())
	}
}

// testNoAnswer: every verb gives up on servers that are silent.
func testNoAnswer(t *testing.T, direct string) {
	through, proxies := proxied(t, direct)
	proxies.Each((*faultproxy.Proxy).Freeze)
	all := []string{"status a", "break --yes a", "run a -- echo no", "doctor"}
	if scheme(direct) != "postgres" { // which cannot list locks
		all = append(all, "status")
	}
	for _, args := range all {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			refuses(t, through, 69, "", strings.Fields(args)...)
		})
	}
}
