package etcd

import (
	"errors"
	"strconv"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
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
func keyOf(within string, lease int64, n int) string {
	key := within + strconv.FormatInt(lease, 16)
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

// grave is the key that says that the claim of owner was abandoned. No name is empty, so it is in no name's way.
func (l layout) grave(owner string) string { return l.prefix + "/" + digits(owner) }

// digits are the random digits of an owner id.
func digits(owner string) string {
	id, _, _ := strings.Cut(owner, ":")
	return id
}

// valueOf is the value of the key of owner's claim.
func valueOf(owner string) string { return valueTag + owner }

// ownerOf is whose claim a key is: an owner id, or, of a foreign client, what it wrote, or at least the end of its key.
func (l layout) ownerOf(kv *mvccpb.KeyValue) (owner string, foreign bool) {
	if owner, ok := strings.CutPrefix(string(kv.Value), valueTag); ok {
		return owner, false
	}
	_, suffix, _ := l.name(string(kv.Key))
	return suffix, true
}

// rangeEnd is the end of the range of keys that begin with prefix.
func rangeEnd(prefix string) []byte {
	end := []byte(prefix)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i] < 0xff {
			end[i]++
			return end[:i+1]
		}
	}
	return []byte{0} // all keys
}

// Parts of transactions.

// created compares the create revision of a key; 0: there is no such key.
func created(key []byte, rev int64) *pb.Compare {
	return &pb.Compare{Result: pb.Compare_EQUAL, Target: pb.Compare_CREATE, Key: key, TargetUnion: &pb.Compare_CreateRevision{CreateRevision: rev}}
}

// none compares a range of keys: there is none in it.
func none(begin, end []byte) *pb.Compare {
	c := created(begin, 0)
	c.RangeEnd = end
	return c
}

func hasValue(key, value []byte) *pb.Compare {
	return &pb.Compare{Result: pb.Compare_EQUAL, Target: pb.Compare_VALUE, Key: key, TargetUnion: &pb.Compare_Value{Value: value}}
}

func get(r *pb.RangeRequest) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: r}}
}

func put(key, value []byte, lease int64) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: key, Value: value, Lease: lease}}}
}

func remove(key []byte) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{Key: key}}}
}

func nested(t *pb.TxnRequest) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: t}}
}

// last asks for the n keys of a range that were created last, the youngest first.
func last(begin, end []byte, n int64) *pb.RangeRequest {
	return &pb.RangeRequest{
		Key: begin, RangeEnd: end, Limit: n, KeysOnly: true,
		SortOrder: pb.RangeRequest_DESCEND, SortTarget: pb.RangeRequest_CREATE,
	}
}

var errReply = errors.New("etcd replied something that was not asked for")

// rangeAt is the reply to the range that was operation i of a transaction.
func rangeAt(r *pb.TxnResponse, i int) (*pb.RangeResponse, error) {
	if i < len(r.Responses) {
		if got := r.Responses[i].GetResponseRange(); got != nil {
			return got, nil
		}
	}
	return nil, errReply
}
