package compare

import (
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/lockport/lockport/internal/lab/report"
)

// machine tells what this process runs on, as far as the system says.
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

// field is what a file of "name : value" lines, as Linux has them, says of a name; empty if it does not, or is not there.
func field(file, name string) string {
	text, _ := os.ReadFile(file)
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
