package servers

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
)

// socksRequest answers the greeting of a SOCKS5 client (RFC 1928) that is no stranger, and returns the port of this machine to
// which it asks to be connected, whatever it calls the machine.
func socksRequest(conn io.ReadWriter) (port int, err error) {
	r := bufio.NewReaderSize(conn, 16) // the client says no more before it has its answer
	version, err := r.ReadByte()
	if err != nil {
		return 0, err
	}
	methods, err := r.ReadByte()
	if err != nil {
		return 0, err
	}
	if _, err := r.Discard(int(methods)); err != nil {
		return 0, err
	}
	if _, err := conn.Write([]byte{5, 0}); err != nil { // no authentication
		return 0, err
	}
	var request struct {
		Version, Command, Reserved, Type byte
		Host                             [4]byte
		Port                             uint16
	}
	if err := binary.Read(r, binary.BigEndian, &request); err != nil {
		return 0, err
	}
	if version != 5 || request.Version != 5 || request.Command != 1 || request.Type != 1 {
		return 0, errors.New("servers: not a SOCKS5 request to connect to an IPv4 address")
	}
	return int(request.Port), nil
}

// socksReply tells the client how dialling for it ended.
func socksReply(conn net.Conn, dialled error) error {
	const succeeded, refused = 0, 5
	code := byte(succeeded)
	if dialled != nil {
		code = refused
	}
	_, err := conn.Write([]byte{5, code, 0, 1, 127, 0, 0, 1, 0, 0}) // neither Java nor Go cares for the address
	return err
}
