package etcd

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockport/lockport/driver"
)

// defaultPrefix is what keys begin with where Options names nothing else.
const defaultPrefix = "lockport/"

// valueTag begins the value of the key of a lockport claim, before the owner id. Any other value is a foreign client's.
const valueTag = "lp1:"

const (
	// sharedTag begins the last part of a reader's key. A writer's is hexadecimal, and so before it.
	sharedTag = "shared-"
	// permitsTag comes before the name in the key of a permit. No name is empty, so it is in no name's way.
	permitsTag = "/permits/"
)

// tagOf begins the last part of the key of req: it says in which mode the claim is.
func tagOf(req driver.Request) string {
	switch {
	case req.Shared:
		return sharedTag
	case req.Permits > 0:
		return strconv.Itoa(req.Permits) + "-"
	}
	return ""
}

// layout says where locks are: all claims on NAME, held or waiting, are keys that begin with PREFIX, NAME with its "/" and "%"
// percent-encoded, and "/". The one with the lowest create revision has the lock. So do client/v3/concurrency and
// "etcdctl lock PREFIX+NAME". As there, a key ends with the lease's id: a process uses the same few keys again and again, since etcd keeps, and
// searches, those that were deleted until it is compacted. Whose claim it is stands in the value. A reader's key has sharedTag before the lease's id.
// The permits of a name are elsewhere, each with their number before the lease's id.
type layout struct {
	prefix string
}

// keyOf is the key of claim n of those on one name that share a lease; a second one is rare. begin is what the name and the mode say.
func keyOf(begin string, lease clientv3.LeaseID, n int) string {
	key := begin + strconv.FormatInt(int64(lease), 16)
	if n > 0 {
		key += "-" + strconv.Itoa(n)
	}
	return key
}

var escapeName = strings.NewReplacer("%", "%25", "/", "%2F")

var unescapeName = strings.NewReplacer("%25", "%", "%2F", "/")

// of is where the claims on name are: a prefix of their keys.
func (l layout) of(name string) string { return l.prefix + escapeName.Replace(name) + "/" }

// permits is where the claims of a permit of name are.
func (l layout) permits(name string) string {
	return l.prefix + permitsTag + escapeName.Replace(name) + "/"
}

// at is where the claim of req is.
func (l layout) at(req driver.Request) string {
	if req.Permits > 0 {
		return l.permits(req.Name)
	}
	return l.of(req.Name)
}

// name is the name that a claim's key is about, and what distinguishes it from the others of that name. false: it is no claim.
func (l layout) name(key string) (name, suffix string, ok bool) {
	rest, ok := strings.CutPrefix(key, l.prefix)
	if !ok {
		return "", "", false
	}
	escaped, suffix, ok := strings.Cut(strings.TrimPrefix(rest, permitsTag), "/")
	return unescapeName.Replace(escaped), suffix, ok && escaped != ""
}

// tombstone is the key that says that the claim of owner, of whose id it has the random digits, was abandoned. No name is empty, so it is in no
// name's way.
func (l layout) tombstone(owner string) string {
	id, _, _ := strings.Cut(owner, ":")
	return l.prefix + "/" + id
}

// valueOf is the value of the key of owner's claim.
func valueOf(owner string) string { return valueTag + owner }

// ownerOf is whose claim a key is: an owner id, or, of a foreign client, what it wrote, or at least the end of its key.
func (l layout) ownerOf(key, value string) (owner string, foreign bool) {
	if owner, ok := strings.CutPrefix(value, valueTag); ok {
		return owner, false
	}
	_, suffix, _ := l.name(key)
	return suffix, true
}

// created compares the create revision of a key; 0: there is no such key.
func created(key string, rev int64) clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(key), "=", rev)
}

// entry is a key that etcd has.
type entry struct {
	key, value string
	created    int64 // its create revision
	lease      clientv3.LeaseID
}

// entries are the keys that were read.
func entries(r *clientv3.GetResponse) []entry {
	all := make([]entry, len(r.Kvs))
	for i, kv := range r.Kvs {
		all[i] = entry{string(kv.Key), string(kv.Value), kv.CreateRevision, clientv3.LeaseID(kv.Lease)}
	}
	return all
}

// claimant is what a key says of its claim.
func (l layout) claimant(e entry) driver.Status {
	st := driver.Status{Held: true, Token: uint64(e.created)}
	st.Owner, st.Foreign = l.ownerOf(e.key, e.value)
	name, suffix, _ := l.name(e.key)
	st.Name, st.Shared = name, strings.HasPrefix(suffix, sharedTag)
	if strings.HasPrefix(e.key, l.prefix+permitsTag) {
		number, _, _ := strings.Cut(suffix, "-")
		st.Permits, _ = strconv.Atoi(number)
	}
	return st
}

// holders sorts the keys of a lock, or of the permits of a name, by the order of their creation, and returns those of its holders.
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

// opGet reads n keys, or all if that is 0, from from to before to, in the order of their creation.
func opGet(from, to string, n int64, order clientv3.SortOrder, opts ...clientv3.OpOption) clientv3.Op {
	return clientv3.OpGet(from, append(opts, clientv3.WithRange(to), clientv3.WithLimit(n), clientv3.WithSort(clientv3.SortByCreateRevision, order))...)
}
