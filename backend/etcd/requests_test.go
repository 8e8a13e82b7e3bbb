package etcd

import (
	"bytes"
	"encoding/binary"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"

	"github.com/lockport/lockport/conformance"
)

// isOp classifies requests by the messages in HTTP/2 frames: a claim puts a key with our value, a release deletes a key and puts none, a
// keep-alive is a single number.
func isOp(op conformance.Op, request []byte) bool {
	request = bytes.TrimPrefix(request, []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
	for len(request) >= 9 {
		size, kind := int(binary.BigEndian.Uint32(request)>>8), request[3]
		body := request[9:]
		if size > len(body) {
			break
		}
		if kind == 0 && size > 5 && isMessage(op, body[5:size]) {
			return true
		}
		request = body[size:]
	}
	return false
}

func isMessage(op conformance.Op, message []byte) bool {
	if op == conformance.OpRenew {
		return message[0] == 8 && len(message) > 8 && len(message) <= 11
	}
	var txn pb.TxnRequest
	unmarshal := func() error { return proto.Unmarshal(message, any(&txn).(proto.Message)) }
	if before, ok := any(&txn).(interface{ Unmarshal([]byte) error }); ok { // of clientv3 before 3.7
		unmarshal = func() error { return before.Unmarshal(message) }
	}
	if unmarshal() != nil {
		return false
	}
	claims, releases := parts(&txn)
	return op == conformance.OpAcquire && claims || op == conformance.OpRelease && releases && !claims
}

// parts reports whether a transaction puts, and whether it deletes.
func parts(txn *pb.TxnRequest) (puts, deletes bool) {
	for _, op := range txn.Success {
		puts = puts || bytes.HasPrefix(op.GetRequestPut().GetValue(), []byte(valueTag))
		deletes = deletes || op.GetRequestDeleteRange() != nil
		if nested := op.GetRequestTxn(); nested != nil {
			p, d := parts(nested)
			puts, deletes = puts || p, deletes || d
		}
	}
	return puts, deletes
}
