package hazards

import (
	"fmt"
	"strings"
	"sync"

	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/play"
	"github.com/lockport/lockport/internal/lab/report"
)

// scenario is one hazard on one subject: the servers, what is done to them and to those who lock, and how often.
type scenario struct {
	hazard, subject, variant string
	// setup is report.Cell.Setup.
	setup string
	// world is the environment in which it is played.
	world string
	// lock is the exhibit of conformance/exhibits/articles that takes the place of lockport's own lock; empty for that.
	lock string
	// notRun says why it cannot happen here; nothing else is set then.
	notRun string
	// full is for what only full runs play.
	full bool
	// plays is how often a quick run plays it (0 is once); a full run does so three times as often.
	plays int
	// alone says that it does something to the servers, so that nothing else can be played on them at the same time.
	alone bool
	// script plays it. What clients believed, wrote and were refused, the history tells; the script adds with found what that cannot show.
	script script
}

// trial is one run of a scenario: a phase of package faults, with commanded workers. Safe for concurrent use.
type trial struct {
	*play.Phase

	mu       sync.Mutex
	class    report.Class
	observed []string
	cuts     []cut
}

// cut is when the network of a worker was cut off, or silent. To is 0 as long as it is.
type cut struct {
	worker   string
	what     string
	from, to history.Instant
}

// found adds what was seen, in a sentence with its figures. The class of the run is the worst of all that was found.
func (p *trial) found(class report.Class, format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.observed = append(p.observed, fmt.Sprintf(format, args...))
	p.class = worst(p.class, class)
}

// text is what was found, for people.
func (p *trial) text() string { return strings.Join(p.observed, " ") }

// cutOff notes that the network of a worker is not as it should be, for the timeline, until mended is called; what says how: "silent", "cut".
func (p *trial) cutOff(w *play.Worker, what string) (mended func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := len(p.cuts)
	p.cuts = append(p.cuts, cut{worker: w.Name, what: what, from: history.Now()})
	return sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.cuts[i].to = history.Now()
	})
}
