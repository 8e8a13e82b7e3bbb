package hazards

import (
	"context"
	"fmt"
	"strings"

	"github.com/lockport/lockport/compare/report"
	"github.com/lockport/lockport/faults"
)

// scenario is one hazard on one subject: the servers, what is done to them and to those who lock, and how often.
type scenario struct {
	hazard, subject, variant string
	// setup is report.Cell.Setup.
	setup string
	// world is the arrangement of faults/worlds on which it is played.
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
	script func(ctx context.Context, p *play) error
}

// play is one run of a scenario: a phase of package faults, with commanded workers.
type play struct {
	*faults.Phase
	class    report.Class
	observed []string
}

// found adds what was seen, in a sentence with its figures. The class of the run is the worst of all that was found.
func (p *play) found(class report.Class, format string, args ...any) {
	p.observed = append(p.observed, fmt.Sprintf(format, args...))
	p.class = worst(p.class, class)
}

// text is what was found, for people.
func (p *play) text() string { return strings.Join(p.observed, " ") }
