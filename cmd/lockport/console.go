package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
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
