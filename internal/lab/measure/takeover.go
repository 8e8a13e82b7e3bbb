package measure

import (
	"context"
	"fmt"
	"time"

	"github.com/lockport/lockport/internal/lab/history"
)

// TakeoverOptions say who is killed.
type TakeoverOptions struct {
	Name    string
	Locks   int // of the process that is killed: a sample each
	Waiters int // processes that wait for them
	// Turn of Turns kills come at several moments of the period of renewals, which is a third of the TTL.
	Turn, Turns int
}

// Takeover kills the process of a holder, and returns how long its locks stayed taken, in milliseconds.
func Takeover(ctx context.Context, c Config, o TakeoverOptions) ([]float64, error) {
	w, err := Start(ctx, c, 1+o.Waiters)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	holder, others := w.all[0], w.all[1:]
	var waits []func(context.Context) (answer, error)
	for i := range o.Locks {
		name := fmt.Sprint(o.Name, "-", i)
		if _, err := holder.Ask(ctx, order{Do: doAcquire, Name: name, For: grantLimit}); err != nil {
			return nil, err
		}
		waits = append(waits, others[i%len(others)].Send(order{Do: doAcquire, Name: name, For: c.TTL + grantLimit}))
	}
	into := c.TTL / 3 * time.Duration(2*o.Turn+1) / time.Duration(2*o.Turns)
	if err := sleep(ctx, settleStep+into); err != nil {
		return nil, err
	}
	killed := history.Now()
	holder.Kill()
	var times []float64
	for _, wait := range waits {
		got, err := wait(ctx)
		if err != nil {
			return nil, err
		}
		if got.At < killed {
			return nil, fmt.Errorf("it was had by the next %v before its holder was killed", killed.Sub(got.At))
		}
		times = append(times, millis(got.At.Sub(killed)))
	}
	return times, nil
}
