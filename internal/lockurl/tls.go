package lockurl

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"strings"

	"github.com/lockport/lockport"
)

// TLSParams are the parameters that [Params.TLS] reads, for URLs that name several servers.
var TLSParams = []lockport.Param{
	{Name: "ca", Text: "file with the CA certificates (PEM) that verify the servers; default: the system's"},
	{Name: "cert", Text: "file with the client's certificate (PEM)"},
	{Name: "key", Text: "file with its key"},
	{Name: "servername", Text: "the name that the servers' certificates must have; default: the host"},
}

// TLS reads the parameters ca, cert, key (files) and servername (default: host) into a client's configuration of TLS 1.2 or newer. The certificates in
// ca replace the system's; cert and key are the client's own.
func (p *Params) TLS(host string) *tls.Config {
	ca, cert, key := p.Text("ca"), p.Text("cert"), p.Text("key")
	t := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: cmp.Or(p.Text("servername"), host)}
	if ca != "" {
		t.RootCAs = x509.NewCertPool()
		if pem, err := os.ReadFile(ca); err != nil {
			p.Fail("the URL parameter ca: %w", err)
		} else if !t.RootCAs.AppendCertsFromPEM(pem) {
			p.Fail("the URL parameter ca: there is no certificate (PEM) in %s", ca)
		}
	}
	if (cert == "") != (key == "") {
		p.Fail("the URL parameters cert and key belong together: give both or none")
	} else if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			p.Fail("the URL parameters cert and key: %w", err)
		}
		t.Certificates = []tls.Certificate{pair}
	}
	return t
}

// NoTLS makes each TLS parameter an error, because needs, such as "tls=true", is missing.
func (p *Params) NoTLS(needs string) {
	for _, param := range TLSParams {
		if p.Has(param.Name) {
			p.Fail("the URL parameter %s needs %s", param.Name, needs)
		}
	}
}

// BadCertificate reports whether one side of a TLS connection does not accept the other's certificate. The server's alert, which has no type of its
// own, comes before the server reads a request.
func BadCertificate(err error) bool {
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	_, unknown := errors.AsType[x509.UnknownAuthorityError](err) // pgx verifies by itself for sslmode=verify-ca
	_, invalid := errors.AsType[x509.CertificateInvalidError](err)
	alert, ok := errors.AsType[*net.OpError](err)
	return untrusted || unknown || invalid || ok && alert.Op == "remote error" && strings.Contains(alert.Err.Error(), "certificate")
}
