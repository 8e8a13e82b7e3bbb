package postgres

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/internal/session"
)

// A batch takes each lock before it draws its token. Otherwise an earlier holder could have a greater token.
func TestBatchesDrawTokensInTheOrderOfTheirLocks(t *testing.T) {
	t.Parallel()
	const keys = 128
	s := backendAt(t, with(t, database(t).URL(), "ttl", "10s")).server
	one := dialled(t, s)
	many := dialled(t, s)
	var newest uint64 // token of the last key; only its holder reads or writes it
	running, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	wrong := ""
	takes := func(who string, token uint64) {
		if token <= newest {
			wrong = fmt.Sprintf("%s got token %d after %d", who, token, newest)
		}
		newest = max(newest, token)
	}
	go func() {
		defer close(ended)
		for running.Err() == nil {
			if o := op(session.Try, keys); one.Do(t.Context(), []*session.Op{o}) == nil && o.OK {
				takes("one", o.Token)
				_ = one.Do(t.Context(), []*session.Op{op(session.Free, keys)})
			}
		}
	}()
	for range 500 {
		var tries, frees []*session.Op
		for k := range int64(keys) {
			tries = append(tries, op(session.Try, k+1))
		}
		ask(t, many, tries...)
		if last := tries[keys-1]; last.OK {
			takes("many", last.Token)
		}
		for _, o := range tries {
			if o.OK {
				frees = append(frees, &session.Op{Kind: session.Free, Key: o.Key})
			}
		}
		ask(t, many, frees...)
	}
	stop()
	<-ended
	require.Empty(t, wrong)
}
