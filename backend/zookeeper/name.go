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

// The layout is that of Curator's InterProcessMutex. Clients in other languages share it: a change needs a major version. The lowest child of
// CHROOT/NAME has the lock. The lowest children of CHROOT/NAME.permits have the permits. A child is called
//
//	_c_GUID-lock-NNNNNNNNNN         a writer's
//	_c_GUID-read-lock-NNNNNNNNNN    a reader's
//	_c_GUID-8of-lock-NNNNNNNNNN     one of 8 permits
//	_c_GUID-__WRIT__NNNNNNNNNN      a writer's, with Options.ReadWriteLock (Curator's InterProcessReadWriteLock)
//	_c_GUID-__READ__NNNNNNNNNN      a reader's, with that option
//
// The last two are also understood without the option, and so are the nodes of kazoo's locks:
//
//	GUID__lock__NNNNNNNNNN          of Lock and WriteLock
//	GUID__rlock__NNNNNNNNNN         of ReadLock
const (
	protectedPrefix = "_c_"
	lockName        = "lock-"
	kazooLockName   = "lock__"
	readLockName    = "__READ__"
	writeLockName   = "__WRIT__"
	sequenceDigits  = 10
	// lastSequence is our limit: slightly above, the server's counter turns negative, and a new node would sort before the holder's.
	lastSequence = math.MaxInt32 - 1<<20
)

// encodeName makes a node name of a lock's name: every byte outside A-Z, a-z, 0-9, _ and - is percent-encoded.
func encodeName(name string) string { return alsoEncoded.Replace(url.QueryEscape(name)) }

// alsoEncoded completes QueryEscape, which keeps "." and "~", and writes a space as "+".
var alsoEncoded = strings.NewReplacer(".", "%2E", "~", "%7E", "+", "%20")

// decodeName reverses encodeName. false: encodeName never returns node.
func decodeName(node string) (name string, ok bool) {
	name, err := url.PathUnescape(node)
	return name, err == nil && name != "" && encodeName(name) == node
}

// permitsSuffix ends the name of the node that contains a name's permits. encodeName never returns a dot.
const permitsSuffix = ".permits"

// parentName is the node that contains the node of req's claim.
func parentName(req driver.Request) string {
	if req.Permits > 0 {
		return encodeName(req.Name) + permitsSuffix
	}
	return encodeName(req.Name)
}

// nodePrefix is the name of a claim's node before its sequence number; readWrite is Options.ReadWriteLock.
func nodePrefix(req driver.Request, readWrite bool) string {
	kind := lockName
	switch {
	case req.Permits > 0:
		kind = strconv.Itoa(req.Permits) + permitMode + lockName
	case readWrite && req.Shared:
		kind = readLockName
	case readWrite:
		kind = writeLockName
	case req.Shared:
		kind = readMode + lockName
	}
	return ownerPrefix(req.Owner) + kind
}

// ownerPrefix begins the names of owner's nodes. The GUID is a hash of the whole owner id, so the owner alone identifies the node.
func ownerPrefix(owner string) string {
	h := sha256.Sum256([]byte(owner))
	return fmt.Sprintf("%s%x-%x-%x-%x-%x-", protectedPrefix, h[0:4], h[4:6], h[6:8], h[8:10], h[10:16])
}

// The modes of claims in node names. To clients that do not know a mode, the claim is exclusive.
const (
	readMode   = "read-"
	permitMode = "of-" // after a number
)

// modeOfNode is the mode in a node's name: "" for a writer's, and for an unknown node's.
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
	n, _ := strconv.Atoi(strings.TrimSuffix(mode, permitMode))
	return n
}

// sortKey is what a lock's children are sorted by, as in Curator: the part after the lock name, or the whole name.
func sortKey(child string) string {
	for _, name := range []string{lockName, readLockName, writeLockName, kazooLockName} {
		if i := strings.LastIndex(child, name); i >= 0 {
			return child[i+len(name):]
		}
	}
	return child
}

// inOrder sorts a lock's children in the order in which they hold it.
func inOrder(children []string) {
	slices.SortStableFunc(children, func(a, b string) int { return cmp.Compare(sortKey(a), sortKey(b)) })
}

// holdersOf returns how many of a lock's children, in order, hold it.
func holdersOf(children []string) int {
	n := 1
	switch mode := modeOfNode(children[0]); {
	case mode == readMode:
		for n < len(children) && modeOfNode(children[n]) == readMode {
			n++
		}
	case permitsOf(mode) > 0:
		n = min(permitsOf(mode), len(children))
	}
	return n
}

// sortsLast reports that child sorts after every sequence number, so that it excludes nobody: it is another program's.
func sortsLast(child string) bool { return sortKey(child) > "9999999999" }

// numberOf is the sequence number that the server gave a node.
func numberOf(node string) (n int64, ok bool) {
	digits := sortKey(node)
	n, err := strconv.ParseInt(digits, 10, 32)
	return n, err == nil && len(digits) == sequenceDigits && n >= 0
}

// exhausted reports that the parent's sequence numbers are used up, or nearly.
func exhausted(node string) bool {
	n, ok := numberOf(node)
	return !ok || n > lastSequence
}

// base is the last part of a path.
func base(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }
