package etcd

import (
	"regexp"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/internal/lab/peer"
)

// These match protobuf messages: a put of our value, the deletion of a key, and a keep-alive, which is a lease's id of 8 to 10 bytes.
var (
	puts       = regexp.MustCompile(`(?s)\x12.{1,2}` + valueTag).Match
	deletes    = regexp.MustCompile(`(?s)\x1a.{1,2}\n.{1,2}` + defaultPrefix).Match
	keepsAlive = regexp.MustCompile(`\x00{4}[\t-\x0b]\x08`).Match
)

// isOp classifies requests. A requeue deletes a key and puts another: it is a claim.
var isOp = peer.Ops{
	conformance.OpAcquire: puts,
	conformance.OpRenew:   keepsAlive,
	conformance.OpRelease: func(request []byte) bool { return deletes(request) && !puts(request) },
}.Is
