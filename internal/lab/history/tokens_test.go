package history_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// grant is a hold, of a worker, that was asked for and got then.
func grant(worker string, asked, got float64, token int) string {
	return fmt.Sprintf("%v %s asked\n %v %s got token %d\n %v %s releasing\n", asked, worker, got, worker, token, got+1, worker)
}

func TestTokenFaults(t *testing.T) {
	const equal, falls = "equal", "falls"
	for _, c := range []struct {
		name, text string
		want       []string // the faults: what, and of whom
	}{
		{"rising", grant("w1/1", 0, 1, 1024) + grant("w2/1", 2, 3, 2048) + grant("w1/2", 4, 5, 3072), nil},
		{"falling", grant("w1/1", 0, 1, 2048) + grant("w2/1", 2, 3, 1024), []string{"falls w1/1 w2/1"}},
		{"falling, after others", grant("w1/1", 0, 1, 9216) + grant("w2/1", 2, 3, 10240) + grant("w3/1", 4, 5, 9217), []string{"equal w1/1 w3/1", "falls w2/1 w3/1"}},
		{"falling, in one worker", grant("w1/1", 0, 1, 2048) + grant("w1/2", 2, 3, 1024), []string{"falls w1/1 w1/2"}},
		{"asked for at one time: the order of grants is not known", grant("w1/1", 0, 1, 2048) + grant("w2/1", 0.5, 3, 1024), nil},
		{"asked for at the instant at which the other was got", grant("w1/1", 0, 1, 2048) + grant("w2/1", 1, 3, 1024), nil},
		{"equal", grant("w1/1", 0, 1, 1024) + grant("w2/1", 2, 3, 1024), []string{"equal w1/1 w2/1"}},
		{"equal, at one time", grant("w1/1", 0, 1, 1024) + grant("w2/1", 0.5, 3, 1024), []string{"equal w1/1 w2/1"}},
		{"equal, in one worker", grant("w1/1", 0, 1, 1024) + grant("w1/2", 0.5, 3, 1024), []string{"equal w1/1 w1/2"}},
		{"one claim of two workers", grant("w1/1", 0, 1, 1024) + grant("w2/1", 0.5, 3, 1025), []string{"equal w1/1 w2/1"}},
		{"handed on", grant("w1/1", 0, 1, 1024) + grant("w1/2", 0, 3, 1025) + grant("w1/3", 4, 5, 1026), nil},
		{"handed on, falling", grant("w1/1", 0, 1, 1024) + grant("w1/2", 0, 3, 1026) + grant("w1/3", 4, 5, 1025), []string{"falls w1/2 w1/3"}},
		{"handed on after another's claim had replaced it", grant("w1/1", 0, 1, 1024) + grant("w2/1", 2, 3, 2048) + grant("w1/2", 4, 5, 1025), nil},
		{"of another name", grant("w1/1", 0, 1, 2048) + "2 w2/1 asked name m\n 3 w2/1 got name m token 1024\n", nil},
		{"without tokens", "0 w1/1 asked\n 1 w1/1 got\n 2 w2/1 asked\n 3 w2/1 got\n", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var found []string
			for _, f := range read(t, c.text).TokenFaults() {
				what := falls
				if f.Equal {
					what = equal
				}
				found = append(found, fmt.Sprintf("%s %s/%d %s/%d", what, f.Earlier.Worker, f.Earlier.Op, f.Later.Worker, f.Later.Op))
			}
			require.Equal(t, c.want, found)
		})
	}
}
