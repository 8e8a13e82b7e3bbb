package servers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// NotInstalled says that a server's program was not found, and what to install. Match it with errors.As.
type NotInstalled struct {
	Program string // "redis-server"
	Install string // "apt-get install redis-server (Debian), brew install redis (macOS)"
}

// Error names the program and what to install.
func (e *NotInstalled) Error() string { return fmt.Sprintf("%s not found: %s", e.Program, e.Install) }

// usualFolders are searched after PATH, which on Debian lacks the sbin folders and Postgres' own for ordinary users.
var usualFolders = []string{
	"/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin", "/opt/homebrew/bin", "/opt/homebrew/sbin",
	"/usr/lib/postgresql/*/bin", "/usr/share/zookeeper/bin",
}

// withoutVariable lists programs that count as not installed, with commas between them, so that what happens without them can be tried.
const withoutVariable = "LOCKPORT_TEST_WITHOUT"

// Find returns the path of a program that is no server, for tests that need one, or a [*NotInstalled] with what to install.
func Find(program, install string) (string, error) { return find(program, install) }

// find returns the path of program, or a *NotInstalled.
func find(program, install string) (string, error) {
	if slices.Contains(strings.Split(os.Getenv(withoutVariable), ","), program) {
		return "", &NotInstalled{Program: program, Install: install}
	}
	if path, err := exec.LookPath(program); err == nil {
		return filepath.Abs(path)
	}
	for _, folder := range usualFolders {
		matches, err := filepath.Glob(filepath.Join(folder, program))
		if err != nil {
			return "", err
		}
		for i := len(matches) - 1; i >= 0; i-- { // the newest version first
			if info, err := os.Stat(matches[i]); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
				return matches[i], nil
			}
		}
	}
	return "", &NotInstalled{Program: program, Install: install}
}
