package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"
)

// console is where a verb writes: data to out, messages for people to err. in is what it reads answers from.
type console struct {
	in          *bufio.Reader
	out, err    io.Writer
	interactive bool // err is a terminal
	answers     bool // in is a terminal
}

func newConsole() *console {
	return &console{in: bufio.NewReader(os.Stdin), out: os.Stdout, err: os.Stderr, interactive: isTerminal(os.Stderr), answers: isTerminal(os.Stdin)}
}

// say writes one line for people. A message that cannot be written is nobody's business.
func (c *console) say(format string, args ...any) {
	_, _ = fmt.Fprintf(c.err, "lockport: %s\n", oneLine(fmt.Sprintf(format, args...)))
}

// encode writes JSON for programs and for people.
func encode(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// interruptible is a context that the first Ctrl-C ends. The second one ends this process.
func interruptible(ctx context.Context) (context.Context, func()) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

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
		_, _ = fmt.Fprint(p.c.err, clearLine, short(line, progressWidth))
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
