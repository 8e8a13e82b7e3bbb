package etcd

import (
	"strconv"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// defaultPrefix is what keys begin with where Options names nothing else.
const defaultPrefix = "lockport/"

// valueTag begins the value of the key of a lockport claim, before the owner id. Any other value is a foreign client's.
const valueTag = "lp1:"

// layout says where locks are: all claims on NAME, held or waiting, are keys that begin with PREFIX, NAME with its "/" and "%"
// percent-encoded, and "/". The one with the lowest create revision has the lock. So do client/v3/concurrency and
// "etcdctl lock PREFIX+NAME". As there, a key ends with the lease's id: a process uses the same few keys again and again, since etcd keeps, and
// searches, those that were deleted until it is compacted. Whose claim it is stands in the value.
type layout struct {
	prefix string
}

// keyOf is the key of claim n of those on one name that share a lease; a second one is rare.
func keyOf(within string, lease clientv3.LeaseID, n int) string {
	key := within + strconv.FormatInt(int64(lease), 16)
	if n > 0 {
		key += "-" + strconv.Itoa(n)
	}
	return key
}

var escapeName = strings.NewReplacer("%", "%25", "/", "%2F")

var unescapeName = strings.NewReplacer("%25", "%", "%2F", "/")

// of is where the claims on name are: a prefix of their keys.
func (l layout) of(name string) string { return l.prefix + escapeName.Replace(name) + "/" }

// name is the name that a claim's key is about, and what distinguishes it from the others of that name. false: it is no claim.
func (l layout) name(key string) (name, suffix string, ok bool) {
	rest, ok := strings.CutPrefix(key, l.prefix)
	if !ok {
		return "", "", false
	}
	escaped, suffix, ok := strings.Cut(rest, "/")
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
func (l layout) ownerOf(key, value []byte) (owner string, foreign bool) {
	if owner, ok := strings.CutPrefix(string(value), valueTag); ok {
		return owner, false
	}
	_, suffix, _ := l.name(string(key))
	return suffix, true
}

// created compares the create revision of a key; 0: there is no such key.
func created(key string, rev int64) clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(key), "=", rev)
}

// opGet reads n keys that begin with within, in the order of their creation.
func opGet(within string, n int64, order clientv3.SortOrder, opts ...clientv3.OpOption) clientv3.Op {
	return clientv3.OpGet(within, append(opts, clientv3.WithPrefix(), clientv3.WithLimit(n), clientv3.WithSort(clientv3.SortByCreateRevision, order))...)
}
