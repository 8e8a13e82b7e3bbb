package servers

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
)

// socksRequest answers the greeting of a SOCKS5 client (RFC 1928) that is no stranger, and returns the address, an IPv4 one, to
// which it asks to be connected.
func socksRequest(conn io.ReadWriter) (target string, err error) {
	r := bufio.NewReaderSize(conn, 16) // the client says no more before it has its answer
	version, err := r.ReadByte()
	if err != nil {
		return "", err
	}
	methods, err := r.ReadByte()
	if err != nil {
		return "", err
	}
	if _, err := r.Discard(int(methods)); err != nil {
		return "", err
	}
	if _, err := conn.Write([]byte{5, 0}); err != nil { // no authentication
		return "", err
	}
	var request struct {
		Version, Command, Reserved, Type byte
		Host                             [4]byte
		Port                             uint16
	}
	if err := binary.Read(r, binary.BigEndian, &request); err != nil {
		return "", err
	}
	if version != 5 || request.Version != 5 || request.Command != 1 || request.Type != 1 {
		return "", errors.New("servers: not a SOCKS5 request to connect to an IPv4 address")
	}
	return netip.AddrPortFrom(netip.AddrFrom4(request.Host), request.Port).String(), nil
}

// socksReply tells the client how dialling for it ended.
func socksReply(conn net.Conn, dialled error) error {
	const succeeded, refused = 0, 5
	code := byte(succeeded)
	if dialled != nil {
		code = refused
	}
	_, err := conn.Write([]byte{5, code, 0, 1, 127, 0, 0, 1, 0, 0}) // Java ignores the address
	return err
}
