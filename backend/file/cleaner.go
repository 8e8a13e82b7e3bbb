package file

import (
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// tmpfilesDirs are where systemd-tmpfiles(8) has its configuration: a file wins over one of the same name in a later folder.
var tmpfilesDirs = []string{"etc/tmpfiles.d", "run/tmpfiles.d", "usr/local/lib/tmpfiles.d", "usr/lib/tmpfiles.d", "lib/tmpfiles.d"}

// cleaner is the program that removes old files in dir, and their age as it is configured; empty if none is known. system is the root folder.
func cleaner(system fs.FS, dir string) (by, age string) {
	if age := tmpfiles(system, dir); age != "" {
		return "systemd-tmpfiles", age
	}
	for _, name := range []string{"tmpreaper", "tmpwatch"} {
		if _, err := fs.Stat(system, "etc/cron.daily/"+name); err == nil && (within("/tmp", dir) || within("/var/tmp", dir)) {
			return name, "some days"
		}
	}
	return "", ""
}

// tmpfiles is the age after which systemd-tmpfiles removes files in dir, empty if it does not.
func tmpfiles(system fs.FS, dir string) (age string) {
	seen := make(map[string]bool)
	excluded, cleaned := false, ""
	for _, folder := range tmpfilesDirs {
		names, _ := fs.Glob(system, folder+"/*.conf")
		for _, name := range names {
			if seen[path.Base(name)] {
				continue
			}
			seen[path.Base(name)] = true
			text, _ := fs.ReadFile(system, name)
			for line := range strings.Lines(string(text)) {
				// Type Path Mode User Group Age Argument
				fields := strings.Fields(line)
				if len(fields) < 2 || !covers(fields[1], dir) {
					continue
				}
				switch kind := fields[0][:1]; {
				case kind == "x":
					excluded = true
				case strings.Contains("dDeqQvC", kind) && len(fields) > 5 && !slices.Contains([]string{"-", "0"}, fields[5]) && len(fields[1]) > len(cleaned):
					cleaned, age = fields[1], strings.TrimPrefix(fields[5], "~")
				}
			}
		}
	}
	if excluded {
		return ""
	}
	return age
}

// covers says that a pattern of tmpfiles.d(5) is for dir or a folder above it.
func covers(pattern, dir string) bool {
	for {
		if ok, _ := filepath.Match(pattern, dir); ok {
			return true
		}
		above := filepath.Dir(dir)
		if above == dir {
			return false
		}
		dir = above
	}
}

// within says that dir is folder or below it.
func within(folder, dir string) bool { return dir == folder || strings.HasPrefix(dir, folder+"/") }
