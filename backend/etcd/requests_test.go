package etcd

import (
	"bytes"
	"encoding/binary"

	"github.com/lockport/lockport/conformance"
)

// isOp tells requests apart by the messages in the frames of HTTP/2: a claim puts a key with our value, a release has one key of a claim and
// nothing else, a keep-alive a number and nothing else.
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
	return op == conformance.OpAny
}

func isMessage(op conformance.Op, message []byte) bool {
	claims := bytes.Contains(message, []byte(valueTag))
	switch op {
	case conformance.OpAcquire:
		return claims
	case conformance.OpRenew:
		return message[0] == 8 && len(message) > 8 && len(message) <= 11
	case conformance.OpRelease:
		return message[0] == 10 && int(message[1]) == len(message)-2 && bytes.HasPrefix(message[2:], []byte(defaultPrefix))
	}
	return true
}
