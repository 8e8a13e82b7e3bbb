package lockport

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"
)

// newIdentity makes the part of owner ids that all claims of one client share: host, process id and label for people, and random digits that make it
// unique.
func newIdentity(label string, hideHost bool) string {
	host := "hidden"
	if !hideHost {
		host, _ = os.Hostname()
		host = cmp.Or(host, "unknown")
	}
	if label == "" {
		label = "lockport"
		if len(os.Args) > 0 {
			label = filepath.Base(os.Args[0])
		}
	}
	var unique [4]byte
	_, _ = rand.Read(unique[:]) // never fails
	clip := func(s string) string {
		return strings.Map(func(r rune) rune {
			if r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("._-", r) {
				return '_'
			}
			return r
		}, s[:min(len(s), maxLabel)])
	}
	return clip(host) + "/" + strconv.Itoa(os.Getpid()) + "/" + clip(label) + "/" + hex.EncodeToString(unique[:])
}

// newOwner makes the owner id of a claim: 128 random bits and the client's identity.
func newOwner(identity string) string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:]) + ":" + identity
}
