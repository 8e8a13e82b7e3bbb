package etcd

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockport/lockport/driver"
)

// defaultPrefix begins the keys unless Options say otherwise.
const defaultPrefix = "lockport/"

// valueTag precedes the owner id in the value of a lockport claim's key. Any other value is a foreign client's.
const valueTag = "lp1:"

const (
	// sharedTag begins the last part of a reader's key. A writer's is hexadecimal, so it sorts first.
	sharedTag = "shared-"
	// permitsTag precedes the name in a permit's key. It cannot collide: no name is empty.
	permitsTag = "/permits/"
)

// modeTag begins the last part of req's key and encodes its mode.
func modeTag(req driver.Request) string {
	switch {
	case req.Shared:
		return sharedTag
	case req.Permits > 0:
		return strconv.Itoa(req.Permits) + "-"
	}
	return ""
}

// layout maps names to keys. The keys of all claims on NAME, held or waiting, begin with PREFIX, NAME with "/" and "%" percent-encoded, and
// "/". The one with the lowest create revision has the lock. This is the layout of client/v3/concurrency and "etcdctl lock PREFIX+NAME". As
// there, a key ends with the lease's id. So a process reuses a few keys: etcd keeps and searches deleted keys until compaction. The value
// has the owner. A reader's key has sharedTag before the lease's id. Permits have a prefix of their own, and their number before that id.
type layout struct {
	prefix string
}

// keyOf is the key of the n-th claim that shares begin (name and mode) and lease; a second one is rare.
func keyOf(begin string, lease clientv3.LeaseID, n int) string {
	key := begin + strconv.FormatInt(int64(lease), 16)
	if n > 0 {
		key += "-" + strconv.Itoa(n)
	}
	return key
}

var escapeName = strings.NewReplacer("%", "%25", "/", "%2F")

var unescapeName = strings.NewReplacer("%25", "%", "%2F", "/")

// prefixes begin the keys of the claims on the lock of name, and of those on its permits.
func (l layout) prefixes(name string) [2]string {
	rest := escapeName.Replace(name) + "/"
	return [...]string{l.prefix + rest, l.prefix + permitsTag + rest}
}

// claimPrefix begins the keys of all claims on the lock, or the permits, that req names.
func (l layout) claimPrefix(req driver.Request) string {
	both := l.prefixes(req.Name)
	if req.Permits > 0 {
		return both[1]
	}
	return both[0]
}

// name returns the name in a claim's key, and the suffix that identifies the claim. false: not a claim.
func (l layout) name(key string) (name, suffix string, ok bool) {
	rest, ok := strings.CutPrefix(key, l.prefix)
	if !ok {
		return "", "", false
	}
	escaped, suffix, ok := strings.Cut(strings.TrimPrefix(rest, permitsTag), "/")
	return unescapeName.Replace(escaped), suffix, ok && escaped != ""
}

// tombstone is the key that marks owner's claim as abandoned. It has the random digits of the owner id. It cannot collide: no name is empty.
func (l layout) tombstone(owner string) string {
	id, _, _ := strings.Cut(owner, ":")
	return l.prefix + "/" + id
}

// valueOf is the value of owner's key.
func valueOf(owner string) string { return valueTag + owner }

// created compares a key's create revision; 0: no such key.
func created(key string, rev int64) clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(key), "=", rev)
}

// entry is a key in etcd.
type entry struct {
	key, value string
	created    int64 // create revision
	lease      clientv3.LeaseID
}

// entries converts the keys of r.
func entries(r *clientv3.GetResponse) []entry {
	all := make([]entry, len(r.Kvs))
	for i, kv := range r.Kvs {
		all[i] = entry{string(kv.Key), string(kv.Value), kv.CreateRevision, clientv3.LeaseID(kv.Lease)}
	}
	return all
}

// claimant returns what a key says about its claim. A foreign client's owner id is the end of its key.
func (l layout) claimant(e entry) driver.Status {
	name, suffix, _ := l.name(e.key)
	owner, ours := strings.CutPrefix(e.value, valueTag)
	if !ours {
		owner = suffix
	}
	st := driver.Status{Name: name, Held: true, Owner: owner, Foreign: !ours, Token: uint64(e.created), Shared: strings.HasPrefix(suffix, sharedTag)}
	if strings.HasPrefix(e.key, l.prefix+permitsTag) {
		number, _, _ := strings.Cut(suffix, "-")
		st.Permits, _ = strconv.Atoi(number)
	}
	return st
}

// holders sorts the keys of a lock, or of a name's permits, by creation, and returns those that hold it.
func (l layout) holders(all []entry) []entry {
	slices.SortFunc(all, func(a, b entry) int { return cmp.Compare(a.created, b.created) })
	if len(all) == 0 {
		return nil
	}
	n, first := 1, l.claimant(all[0])
	for n < len(all) && (n < first.Permits || first.Shared && l.claimant(all[n]).Shared) {
		n++
	}
	return all[:n]
}

// opGet reads the first n keys of [from, to), or all if n is 0, ordered by creation.
func opGet(from, to string, n int64, order clientv3.SortOrder, opts ...clientv3.OpOption) clientv3.Op {
	return clientv3.OpGet(from, append(opts, clientv3.WithRange(to), clientv3.WithLimit(n), clientv3.WithSort(clientv3.SortByCreateRevision, order))...)
}
