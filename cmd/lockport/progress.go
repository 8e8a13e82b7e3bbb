package main

import (
	"fmt"
	"time"
)

// progress shows how far a long piece of work is: on a terminal one line that changes, elsewhere a line now and then. Not safe for concurrent use.
type progress struct {
	c     *console
	began time.Time
	said  time.Time
	shown bool // there is a line to be removed
}

const (
	progressEvery = 10 * time.Second // between two lines where there is no terminal
	progressWidth = 100              // columns of a terminal that are used
	clearLine     = "\r\x1b[K"
)

func newProgress(c *console) *progress { return &progress{c: c, began: time.Now()} }

// show says that done of total pieces of a part are done, and what is under way.
func (p *progress) show(part string, done, total int, what string) {
	now := time.Now()
	line := fmt.Sprintf("%s %d/%d  %s", part, done, total, what)
	if p.c.interactive {
		line = fmt.Sprintf("%3.0f s  %s", now.Sub(p.began).Seconds(), line)
		if r := []rune(line); len(r) > progressWidth {
			line = string(r[:progressWidth-1]) + "…"
		}
		_, _ = fmt.Fprintf(p.c.err, clearLine+"%s", line)
		p.shown = true
		return
	}
	if now.Sub(p.said) >= progressEvery {
		p.said = now
		p.c.say("%s", line)
	}
}

// end removes the line.
func (p *progress) end() {
	if p.shown {
		_, _ = fmt.Fprint(p.c.err, clearLine)
		p.shown = false
	}
}
