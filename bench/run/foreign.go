package run

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lockport/lockport/faults"

	"github.com/lockport/lockport/bench/crew"
	"github.com/lockport/lockport/bench/lib"
	"github.com/lockport/lockport/bench/result"
)

// stranger is the library that keeps to SET NX on the key that lockport has for a name, and asks again and again.
const stranger = "redislock"

// foreign is the scenario of a mixed fleet: what is left for a client that polls.
type foreign struct {
	place
	goroutines  int
	ours, alien *crew.Clerk
}

func openForeign(goroutines int) func(context.Context, place) (player, error) {
	return func(ctx context.Context, at place) (player, error) {
		ours, err := crew.Kind.Start(ctx, at.posting(at.config(ttl)))
		if err != nil {
			return nil, err
		}
		alien, err := crew.Kind.Start(ctx, crew.Posting{Family: at.lib.Family, Library: stranger, Config: at.config(ttl)})
		if err != nil {
			ours.Close()
			return nil, err
		}
		return &foreign{at, goroutines, ours, alien}, nil
	}
}

func (f *foreign) close() { crew.Crew{f.ours, f.alien}.Close() }

// oursOnRedis are those whose keys the stranger knows.
func oursOnRedis(l lib.Library) string {
	if l.Kind != lib.Ours && l.Kind != lib.Variant || l.Family != "redis" {
		return notShown
	}
	return ""
}

func (f *foreign) turn(ctx context.Context, n int) ([]result.Value, error) {
	begin := faults.Now().Add(startTime)
	end := begin.Add(f.Contend)
	name := fmt.Sprint(f.name, "-", n)
	order := crew.Order{Do: crew.Contend, Name: name, Goroutines: f.goroutines, Begin: begin, For: f.Contend, Grace: f.Grace}
	ours := f.ours.Send(order)
	order.Name, order.Goroutines = "lockport:"+name, 1
	theirs := f.alien.Send(order)
	a, err := ours(ctx)
	if err != nil {
		return nil, err
	}
	b, err := theirs(ctx)
	if err != nil {
		return nil, err
	}
	alien := b.Unpack(f.goroutines)
	all := judge(slices.Concat(a.Unpack(0), alien), f.goroutines+1, end)
	had, longest := 0, time.Duration(0)
	for _, h := range alien {
		switch {
		case h.Got == 0:
			longest = max(longest, end.Sub(h.Asked))
		default:
			longest = max(longest, h.Got.Sub(h.Asked))
			if h.Got < end {
				had++
			}
		}
	}
	return []result.Value{
		result.More("acquisitions", "/s", float64(all.holds)/f.Contend.Seconds()),
		result.More("the stranger's", "/s", float64(had)/f.Contend.Seconds()),
		result.More("its share", "%", 100*float64(had)/float64(max(1, all.holds))),
		result.Less("its longest wait", "ms", millis(longest)),
		result.Less("overlaps", "holds", float64(all.overlaps)),
	}, nil
}
