package main

import (
	"fmt"
	"io"
	"os"
)

// console is where a verb writes: data to out, messages for people to err.
type console struct {
	out, err    io.Writer
	interactive bool // err is a terminal
}

func newConsole() *console {
	return &console{out: os.Stdout, err: os.Stderr, interactive: isTerminal(os.Stderr)}
}

// say writes one line for people. A message that cannot be written is nobody's business.
func (c *console) say(format string, args ...any) {
	_, _ = fmt.Fprintf(c.err, "lockport: %s\n", oneLine(fmt.Sprintf(format, args...)))
}
