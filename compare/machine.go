package compare

import (
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/lockport/lockport/internal/lab/report"
)

// machine describes the machine, as far as the system does.
func machine() report.Machine {
	m := report.Machine{
		OS: runtime.GOOS + "/" + runtime.GOARCH, CPU: field("/proc/cpuinfo", "model name"), Cores: runtime.GOMAXPROCS(0), Go: runtime.Version(),
		Lockport: "(devel)",
	}
	if kilobytes, ok := strings.CutSuffix(field("/proc/meminfo", "MemTotal"), " kB"); ok {
		n, _ := strconv.ParseInt(kilobytes, 10, 64)
		m.Memory = n << 10
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		m.Lockport = info.Main.Version
	}
	return m
}

// field reads a name from a file of "name : value" lines, as Linux has them. It is empty if the file or the name is missing.
func field(file, name string) string {
	text, _ := os.ReadFile(file)
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
