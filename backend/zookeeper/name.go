package zookeeper

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/lockport/lockport/driver"
)

// The layout is that of Curator's InterProcessMutex: the lock on a name is the lowest child of CHROOT/NAME, and a child is called
// _c_GUID-lock-NNNNNNNNNN, a reader's _c_GUID-read-lock-NNNNNNNNNN. Permits are the lowest children of CHROOT/NAME.permits, _c_GUID-8of-lock-NNNNNNNNNN. With Options.ReadWriteLock a writer's is
// _c_GUID-__WRIT__NNNNNNNNNN and a reader's _c_GUID-__READ__NNNNNNNNNN, as of Curator's InterProcessReadWriteLock; each is understood without the option too. It is shared with clients in other languages: changing it is a major version.
const (
	protectedPrefix = "_c_"
	lockName        = "lock-"
	readLockName    = "__READ__"
	writeLockName   = "__WRIT__"
	sequenceDigits  = 10
	// lastSequence is where we stop: a little further the server's counter becomes negative, and a newcomer would sort before the holder.
	lastSequence = math.MaxInt32 - 1<<20
)

// encodeName makes the name of a node of a lock's name: everything outside A-Z, a-z, 0-9, _ and - is percent-encoded, byte by byte.
func encodeName(name string) string {
	var b strings.Builder
	for _, c := range []byte(name) {
		if c == '_' || c == '-' || '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// decodeName is the reverse. false: encodeName never makes that.
func decodeName(node string) (name string, ok bool) {
	name, err := url.PathUnescape(node)
	return name, err == nil && name != "" && encodeName(name) == node
}

// permitsSuffix is what follows the lock's own node's name in that of its permits. encodeName never makes a dot.
const permitsSuffix = ".permits"

// parentName is the node below which the claim of req has its own.
func parentName(req driver.Request) string {
	if req.Permits > 0 {
		return encodeName(req.Name) + permitsSuffix
	}
	return encodeName(req.Name)
}

// nodePrefix is what the node of a claim is called before its sequence number; readWrite is Options.ReadWriteLock.
func nodePrefix(req driver.Request, readWrite bool) string {
	switch {
	case !readWrite || req.Permits > 0:
		return ownerPrefix(req.Owner) + modeOf(req) + lockName
	case req.Shared:
		return ownerPrefix(req.Owner) + readLockName
	}
	return ownerPrefix(req.Owner) + writeLockName
}

// ownerPrefix is what the node of a claim of owner begins with. The GUID is a hash of the whole owner id, so that the owner alone finds the node.
func ownerPrefix(owner string) string {
	h := sha256.Sum256([]byte(owner))
	return fmt.Sprintf("%s%x-%x-%x-%x-%x-", protectedPrefix, h[0:4], h[4:6], h[6:8], h[8:10], h[10:16])
}

// The modes of claims, as their nodes' names have them. Clients that do not know them see a claim like others, which keeps them out.
const (
	readMode   = "read-"
	permitMode = "of-" // behind a number
)

func modeOf(req driver.Request) string {
	switch {
	case req.Shared:
		return readMode
	case req.Permits > 0:
		return strconv.Itoa(req.Permits) + permitMode
	}
	return ""
}

// modeOfNode is modeOf of the claim that has a node: "" for a writer, and for what is none of ours.
func modeOfNode(child string) string {
	const guid = len(protectedPrefix) + 36 + 1
	if strings.Contains(child, readLockName) {
		return readMode
	}
	if i := strings.LastIndex(child, lockName); i > guid && strings.HasPrefix(child, protectedPrefix) {
		return child[guid:i]
	}
	return ""
}

// permitsOf is the number of permits in a mode, 0 if it has none.
func permitsOf(mode string) int {
	digits, _ := strings.CutSuffix(mode, permitMode)
	n, _ := strconv.Atoi(digits)
	return n
}

// sortKey is what Curator orders a child by: what follows the name of its lock, or all of it.
func sortKey(child string) string {
	for _, name := range []string{lockName, readLockName, writeLockName} {
		if i := strings.LastIndex(child, name); i >= 0 {
			return child[i+len(name):]
		}
	}
	return child
}

// inOrder sorts the children of a lock as they are to hold it.
func inOrder(children []string) {
	slices.SortStableFunc(children, func(a, b string) int { return cmp.Compare(sortKey(a), sortKey(b)) })
}

// isBehindAll says of a child that it sorts behind every sequence number, so that it keeps nobody out: it is another program's.
func isBehindAll(child string) bool { return sortKey(child) > "9999999999" }

// numberOf is the number that the server gave a node.
func numberOf(node string) (n int64, ok bool) {
	digits := sortKey(node)
	n, err := strconv.ParseInt(digits, 10, 32)
	return n, err == nil && len(digits) == sequenceDigits && n >= 0
}

// usedUp reports that the sequence numbers of the node's parent have come, or soon come, to an end.
func usedUp(node string) bool {
	n, ok := numberOf(node)
	return !ok || n > lastSequence
}

// base is the last part of a path.
func base(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }
