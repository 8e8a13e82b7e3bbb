package hazards

import (
	"cmp"
	"flag"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/servers"
)

var (
	scenarios = flag.String("scenarios", "", "which cells TestScenarios plays, as a regular expression (\"^H7-redis\")")
	times     = flag.Int("times", 1, "how often TestScenarios plays each")
)

// Each play of a cell shows what is stated of it, those of full runs too: to be run when a script has changed.
func TestScenarios(t *testing.T) {
	if *scenarios == "" {
		t.Skip("not run: -scenarios is empty")
	}
	chosen := regexp.MustCompile(*scenarios)
	for _, a := range environment.All() {
		var here []*cell
		for _, s := range table() {
			b := &cell{scenario: &s}
			if c, _ := b.report(); s.notRun == "" && s.environment == a.Name && chosen.MatchString(c.ID()) {
				here = append(here, b)
			}
		}
		if len(here) == 0 {
			continue
		}
		t.Run(a.Name, func(t *testing.T) {
			w, err := a.Open(t.Context())
			servers.NeedInstalled(t, err, a.Needs...)
			defer func() { require.NoError(t, w.Close()) }()
			for n := range *times {
				for _, b := range here {
					c, _ := b.report()
					begun := time.Now()
					r, err := b.play(t.Context(), w, n)
					if err != nil {
						t.Errorf("%s could not be played: %v", c.ID(), err)
						continue
					}
					t.Logf("%-40s %5.1f s: %s, late write %s: %s", c.ID(), time.Since(begun).Seconds(), r.Class, r.late, r.Observed)
					if want := cmp.Or(golden[c.ID()], goldenFull[c.ID()]); r.Class != want {
						t.Errorf("%s is stated to be %q, and was seen to be %q", c.ID(), want, r.Class)
					}
				}
			}
		})
	}
}
