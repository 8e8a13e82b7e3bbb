package child

import (
	"io"
	"os"
	"os/exec"
)

// Again is this program, run once more in a process of its own.
type Again struct {
	Cmd   *exec.Cmd
	In    io.WriteCloser
	Out   io.Reader
	Ended func() // as of Start
}

// Rerun starts this program once more, with env added to its environment, as [Start] does. What it prints to its standard error goes to stderr.
func Rerun(stderr io.Writer, env ...string) (*Again, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	a := &Again{Cmd: exec.Command(self)}
	a.Cmd.Env = append(os.Environ(), env...)
	a.Cmd.Stderr = stderr
	if a.Out, err = a.Cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	if a.In, err = a.Cmd.StdinPipe(); err != nil {
		return nil, err
	}
	a.Ended, err = Start(a.Cmd)
	return a, err
}
