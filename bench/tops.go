package main

import (
	"bytes"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
)

// process is what the names of a scenario's profiles differ in.
var process = regexp.MustCompile(`-[0-9]+\.([a-z]+)\.pprof$`)

// tops prints who is at the top of the profiles in a folder: those of all processes of a library in a scenario together.
func tops(folder string, to io.Writer) error {
	files, err := filepath.Glob(filepath.Join(folder, "*.pprof"))
	if err != nil {
		return err
	}
	together := make(map[string][]string)
	var names []string
	for _, file := range files {
		name := process.ReplaceAllString(file, ".$1")
		if together[name] == nil {
			names = append(names, name)
		}
		together[name] = append(together[name], file)
	}
	slices.Sort(names)
	for _, name := range names {
		args := append([]string{"tool", "pprof", "-top", "-nodecount=12"}, together[name]...)
		out, err := exec.Command("go", args...).Output()
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if _, err := fmt.Fprintf(to, "\n%s, of %d processes: go tool pprof -http=: %s\n%s\n", name, len(together[name]), together[name][0], bytes.TrimSpace(out)); err != nil {
			return err
		}
	}
	return nil
}
