package file

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

const (
	suffix    = ".lock"
	maxPrefix = 32 // bytes of the readable part
)

// FileName is the name of the file of the lock on name, for other programs, such as flock(1), that take part: what is readable of
// name, and its SHA-256, which alone makes it distinct. name must not be empty.
func FileName(name string) string {
	sum := sha256.Sum256([]byte(name))
	return readable(name) + "-" + hex.EncodeToString(sum[:]) + suffix
}

// readable is the beginning of name in letters that need no quoting and make no hidden file.
func readable(name string) string {
	s := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '_', r == '-':
			return r
		}
		return '_'
	}, name[:min(len(name), 4*maxPrefix)])
	s = s[:min(len(s), maxPrefix)]
	if s[0] == '.' || s[0] == '-' {
		s = "_" + s[1:]
	}
	return s
}
