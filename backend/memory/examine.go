package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockport/lockport/driver"
)

var _ driver.Examiner = (*Backend)(nil)

// Examine implements driver.Examiner.
func (b *Backend) Examine(ctx context.Context, _ time.Duration) (driver.Examination, error) {
	found := driver.Examination{Server: "this process", Notices: []driver.Notice{{ID: "one-process",
		Text:   "The locks are known to this process alone: they exclude nobody in another one, and end with it.",
		Remedy: "Use another backend (file: for one machine) as soon as there is a second process."}}}
	err := b.call(ctx, Look, func(time.Time) error { return nil })
	if errors.Is(err, driver.ErrUnknown) { // it would have changed nothing
		err = fmt.Errorf("%w: no answer: %w", driver.ErrUnavailable, cmp.Or(ctx.Err(), errLostReply))
	}
	if err != nil {
		return driver.Examination{}, err
	}
	return found, nil
}

var errLostReply = errors.New("the reply was lost")
