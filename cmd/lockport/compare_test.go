package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/compare"
)

// The help names all that there is to choose.
func TestCompareHelp(t *testing.T) {
	v, err := findVerb("compare")
	require.NoError(t, err)
	require.Contains(t, strings.Join(strings.Fields(v.help()), " "), "hazards or costs; H1 to H15; "+strings.Join(compare.Scenarios()[17:], ", ")+". May")
	for _, name := range compare.Subjects() {
		require.Contains(t, v.help(), name)
	}
}

func TestParseCompare(t *testing.T) {
	o, err := parseCompare([]string{"--scenario", "H7,H8", "--scenario=cycle", "--backend", "redis,etcd", "--full", "--out", "x"})
	require.NoError(t, err)
	require.Equal(t, []string{"H7", "H8", "cycle"}, o.Scenarios)
	require.Equal(t, []string{"redis", "etcd"}, o.Subjects)
	require.True(t, o.Full)
	require.Equal(t, "x", o.out)
	o, err = parseCompare([]string{"--url", "redis://a", "--url", "etcd://b,c"})
	require.NoError(t, err)
	require.Equal(t, []string{"redis://a", "etcd://b,c"}, o.URLs)
	require.Equal(t, "lockport-report", o.out)

	for says, args := range map[string][]string{
		`unknown scenario "H99"; known: hazards, costs, H1,`:     {"--scenario", "H99"},
		`unknown backend "oracle"; known: article, file, redis,`: {"--backend", "oracle"},
		"with --url the backends are those of the URLs":          {"--url", "redis://a", "--backend", "etcd"},
		"hazards are shown on servers of our own only":           {"--url", "redis://a", "--scenario", "H7"},
		"compare takes options only":                             {"redis://a"},
		"--out needs the name of a folder":                       {"--out", ""},
		"unknown flag: --fast":                                   {"--fast"},
	} {
		_, err := parseCompare(args)
		require.ErrorContains(t, err, says)
		require.Equal(t, exitUsage, err.(*exitError).code)
	}
}
