package file

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strconv"
	"unicode/utf8"
)

const (
	suffix    = ".lock"
	maxPrefix = 32 // bytes of the readable part
)

// FileName returns the name of name's lock file, for other programs that take part, such as flock(1): a readable part of name, and its SHA-256, which
// alone makes it distinct. name must not be empty.
func FileName(name string) string { return stem(name) + suffix }

func stem(name string) string {
	sum := sha256.Sum256([]byte(name))
	return readable(name) + "-" + hex.EncodeToString(sum[:])
}

// A name has other files beside its lock file: the gate of its permits, and numbered ones for each permit and each concurrent reader.
const (
	permit = ".permit-"
	reader = ".reader-"
)

func gateName(name string) string { return stem(name) + ".permits" + suffix }

// numbered is name's i-th file of a kind. The first is 1.
func numbered(name, kind string, i int) string { return stem(name) + kind + strconv.Itoa(i) + suffix }

// lockFileName matches the names of those files. A folder may have other files, such as Cargo.lock, which prune must not remove.
var lockFileName = regexp.MustCompile(`-[0-9a-f]{64}(\.(permits|(permit|reader)-[0-9]+))?\.lock$`)

// unfit matches a character that needs quoting or makes a hidden file.
var unfit = regexp.MustCompile(`[^A-Za-z0-9._-]|^[.-]`)

// readable is the beginning of name, with another character for each unfit one.
func readable(name string) string {
	s := unfit.ReplaceAllLiteralString(name[:min(len(name), utf8.UTFMax*maxPrefix)], "_")
	return s[:min(len(s), maxPrefix)]
}
