package run

import (
	"fmt"
	"time"

	"github.com/lockport/lockport/bench/stage"
)

// progress says what begins, and how long the rest may take: as long as scenarios are said to take, times what those that are done have taken more, or less.
type progress struct {
	tell       func(string)
	began      time.Time
	done, left time.Duration // as scenarios are said to take
	families   map[string]time.Duration
}

func (r *runner) newProgress() *progress {
	p := &progress{tell: r.Options.Progress, began: time.Now(), families: make(map[string]time.Duration)}
	for _, f := range stage.Families {
		for _, s := range scenarios(r.Plan) {
			for _, l := range r.matching(f, s) {
				if why, _ := s.takes(l); why == "" {
					p.families[f.Name] += time.Duration(r.Options.Turns) * s.about
				}
			}
		}
		p.left += p.families[f.Name]
	}
	return p
}

func (p *progress) say(what string) {
	text := fmt.Sprintf("%s %s", time.Since(p.began).Round(time.Second), what)
	if p.done > 0 {
		rest := float64(p.left) * float64(time.Since(p.began)) / float64(p.done)
		text += fmt.Sprintf(" (about %s left)", time.Duration(rest).Round(time.Second))
	}
	p.tell(text)
}

func (p *progress) did(about time.Duration) { p.done, p.left = p.done+about, p.left-about }

// leaveOut has a family that is not there not be waited for.
func (p *progress) leaveOut(f stage.Family) { p.left -= p.families[f.Name] }
