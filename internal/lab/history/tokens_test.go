package history_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// grant is a hold of a worker in a mode, with the times at which it was asked for and got.
func grant(worker string, asked, got float64, token int) string {
	worker, mode, _ := strings.Cut(worker, " ")
	return fmt.Sprintf("%v %s asked %s\n %v %s got token %d\n %v %s releasing\n", asked, worker, mode, got, worker, token, got+1, worker)
}

func TestTokenFaults(t *testing.T) {
	kinds := map[bool]string{true: "equal", false: "falls"} // by TokenFault.Equal
	for _, c := range []struct {
		name, text string
		want       []string // the faults: kind and holds
	}{
		{"rising", grant("w1/1", 0, 1, 1024) + grant("w2/1", 2, 3, 2048) + grant("w1/2", 4, 5, 3072), nil},
		{"falling", grant("w1/1", 0, 1, 2048) + grant("w2/1", 2, 3, 1024), []string{"falls w1/1 w2/1"}},
		{"falling, after others", grant("w1/1", 0, 1, 9216) + grant("w2/1", 2, 3, 10240) + grant("w3/1", 4, 5, 9217), []string{"equal w1/1 w3/1"}},
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
		{"readers of one claim", grant("w1/1 shared", 0, 1, 1024) + grant("w1/2 shared", 2, 3, 1024) + grant("w2/1", 4, 5, 2048), nil},
		{"a reader joins an old claim", grant("w1/1 shared", 0, 1, 1024) + grant("w2/1 shared", 2, 3, 2048) + grant("w1/2 shared", 4, 5, 1024), nil},
		{"a writer falls behind a reader", grant("w1/1 shared", 0, 1, 2048) + grant("w2/1", 2, 3, 1024), []string{"falls w1/1 w2/1"}},
		{"a reader falls behind a writer", grant("w1/1", 0, 1, 2048) + grant("w2/1 shared", 2, 3, 1024), []string{"falls w1/1 w2/1"}},
		{"a writer has a reader's token", grant("w1/1 shared", 0, 1, 1024) + grant("w2/1", 2, 3, 1024), []string{"equal w1/1 w2/1"}},
		{"permits rise", grant("w1/1 permits 2", 0, 1, 1024) + grant("w2/1 permits 2", 2, 3, 2048), nil},
		{"permits fall", grant("w1/1 permits 2", 0, 1, 2048) + grant("w2/1 permits 2", 2, 3, 1024), []string{"falls w1/1 w2/1"}},
		{"a permit twice", grant("w1/1 permits 2", 0, 1, 1024) + grant("w2/1 permits 2", 0.5, 3, 1024), []string{"equal w1/1 w2/1"}},
		{"a permit was granted to a call that gave up, and had by the next", "0 w1/1 asked permits 2\n" + grant("w2/1 permits 2", 1, 2, 2048) +
			"3 w1/2 asked permits 2\n 4 w1/1 failed\n 5 w1/2 got token 1024\n", nil},
		{"of another name", grant("w1/1", 0, 1, 2048) + "2 w2/1 asked name m\n 3 w2/1 got name m token 1024\n", nil},
		{"without tokens", "0 w1/1 asked\n 1 w1/1 got\n 2 w2/1 asked\n 3 w2/1 got\n", nil},
	} {
		var found []string
		for _, f := range read(t, c.text).TokenFaults() {
			found = append(found, fmt.Sprintf("%s %s/%d %s/%d", kinds[f.Equal], f.Earlier.Worker, f.Earlier.Op, f.Later.Worker, f.Later.Op))
		}
		require.Equal(t, c.want, found, c.name)
	}
}
