package report

import (
	"fmt"
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
)

// Machine is the machine of a run.
type Machine struct {
	OS       string `json:"os"`    // "linux/amd64"
	CPU      string `json:"cpu"`   // name of the processor, empty if unknown
	Cores    int    `json:"cores"` // usable processors
	Go       string `json:"go"`    // versions
	Lockport string `json:"lockport,omitempty"`
}

// ThisMachine describes the machine, as far as the system does.
func ThisMachine() Machine {
	m := Machine{OS: runtime.GOOS + "/" + runtime.GOARCH, Cores: runtime.GOMAXPROCS(0), Go: runtime.Version(), Lockport: "(devel)"}
	text, _ := os.ReadFile("/proc/cpuinfo")
	if name := regexp.MustCompile(`model name\s*: (.*)`).FindSubmatch(text); name != nil {
		m.CPU = string(name[1])
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		m.Lockport = info.Main.Version
	}
	return m
}

// String describes the machine for people.
func (m Machine) String() string {
	parts := []string{m.OS, m.CPU, fmt.Sprintf("GOMAXPROCS=%d", m.Cores), m.Go, "lockport " + m.Lockport}
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), ", ")
}
