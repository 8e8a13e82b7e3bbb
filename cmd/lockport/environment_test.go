//go:build linux || darwin

package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/backend/memory"
)

// A command learns of the locks that it runs under, and of no lock that lockport itself was run under.
func TestEnvironment(t *testing.T) {
	t.Setenv("LOCKPORT_TOKEN", "7")
	t.Setenv("LOCKPORT_NAME_3", "another")
	client, err := memory.New(memory.Options{})
	require.NoError(t, err)
	defer client.Close()
	for _, tt := range []struct{ names, want []string }{
		{[]string{"x"}, []string{"LOCKPORT_NAME=x", "LOCKPORT_TOKEN=1024"}},
		{[]string{"z", "y"}, []string{"LOCKPORT_NAME_1=y", "LOCKPORT_NAME_2=z", "LOCKPORT_TOKEN_1=", "LOCKPORT_TOKEN_2="}},
	} {
		set, err := lockport.AcquireAll(t.Context(), client, tt.names)
		require.NoError(t, err)
		env := slices.DeleteFunc(environment("memory", set.Locks()), func(e string) bool {
			return !strings.HasPrefix(e, "LOCKPORT_NAME") && !strings.HasPrefix(e, "LOCKPORT_TOKEN")
		})
		slices.Sort(env)
		require.Len(t, env, len(tt.want))
		for i, want := range tt.want {
			require.True(t, strings.HasPrefix(env[i], want), "%s, want %s", env[i], want)
		}
	}
}
