package zookeeper

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"
)

// Operations, as the protocol numbers them.
const (
	opCreate          = 1
	opDelete          = 2
	opExists          = 3
	opGetData         = 4
	opGetChildren     = 8
	opSync            = 9
	opPing            = 11
	opCheck           = 13
	opMulti           = 14
	opCreateContainer = 19
	opAuth            = 100
	opClose           = -11
	opError           = -1
)

// pingNumber is the number of all pings, and eventNumber that of what happened to something that is watched.
const (
	pingNumber  = -2
	eventNumber = -1
)

// headerBytes are those of a request after its length, and headBytes those of a response: its number, transaction and error.
const (
	headerBytes = 8
	headBytes   = 16
)

// The errors of the protocol that we tell apart.
const (
	codeOK      = 0
	codeNoNode  = -101
	codeExpired = -112
	codeMoved   = -118
)

var codes = map[int32]error{
	codeNoNode:  zk.ErrNoNode,
	-102:        zk.ErrNoAuth,
	-108:        zk.ErrNoChildrenForEphemerals,
	-110:        zk.ErrNodeExists,
	codeExpired: zk.ErrSessionExpired,
	-114:        zk.ErrInvalidACL,
	-115:        zk.ErrAuthFailed,
	codeMoved:   zk.ErrSessionMoved,
}

// errorOf is the error of a code.
func errorOf(code int32) error {
	if code == codeOK {
		return nil
	}
	if err, ok := codes[code]; ok {
		return err
	}
	return fmt.Errorf("the server's error %d", code)
}

// frame is a request as it is written: its length, its number, which is filled in when it is sent, its operation and its body.
type frame []byte

func newFrame(op int32) frame {
	f := make(frame, 4+headerBytes, 256)
	binary.BigEndian.PutUint32(f[8:], uint32(op))
	return f
}

func (f frame) int(n int32) frame { return binary.BigEndian.AppendUint32(f, uint32(n)) }

func (f frame) bool(b bool) frame {
	if b {
		return append(f, 1)
	}
	return append(f, 0)
}

func (f frame) string(s string) frame { return append(f.int(int32(len(s))), s...) }

func (f frame) op() int32 { return int32(binary.BigEndian.Uint32(f[8:])) }

// number completes a frame.
func (f frame) number(xid int32) {
	binary.BigEndian.PutUint32(f, uint32(len(f)-4))
	binary.BigEndian.PutUint32(f[4:], uint32(xid))
}

func createFrame(op int32, path, data string, acl []zk.ACL, flags int32) frame {
	f := newFrame(op).string(path).string(data).int(int32(len(acl)))
	for _, a := range acl {
		f = f.int(a.Perms).string(a.Scheme).string(a.ID)
	}
	return f.int(flags)
}

func deleteFrame(path string) frame { return newFrame(opDelete).string(path).int(-1) }
func listFrame(path string) frame   { return newFrame(opGetChildren).string(path).bool(false) }
func getFrame(path string) frame    { return newFrame(opGetData).string(path).bool(false) }
func syncFrame(path string) frame   { return newFrame(opSync).string(path) }

// watchFrame asks for the next event of a node that is there; but not for those of its children.
func watchFrame(path string) frame { return newFrame(opExists).string(path).bool(true) }

// checkFrame is a transaction that only checks that the node is there.
func checkFrame(path string) frame {
	return newFrame(opMulti).int(opCheck).bool(false).int(-1).string(path).int(-1).int(-1).bool(true).int(-1)
}

var errMalformed = errors.New("the server's reply is malformed")

// body is what is left to read of a reply.
type body struct {
	left []byte
	bad  bool
}

func (b *body) take(n int) []byte {
	if n < 0 || n > len(b.left) {
		b.left, b.bad = nil, true
		return make([]byte, min(max(n, 0), 8))
	}
	p := b.left[:n]
	b.left = b.left[n:]
	return p
}

func (b *body) int() int32     { return int32(binary.BigEndian.Uint32(b.take(4))) }
func (b *body) long() int64    { return int64(binary.BigEndian.Uint64(b.take(8))) }
func (b *body) string() string { return string(b.take(max(int(b.int()), 0))) } // -1 is none

func (b *body) strings() []string {
	n := int(b.int())
	if n > len(b.left)/4 {
		b.bad = true
		return nil
	}
	all := make([]string, 0, max(n, 0))
	for range n {
		all = append(all, b.string())
	}
	return all
}

func (b *body) err() error {
	if b.bad {
		return errMalformed
	}
	return nil
}
