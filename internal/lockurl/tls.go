package lockurl

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"github.com/lockport/lockport"
)

// TLSParams are the parameters that [Params.TLS] reads, for URLs that name several servers.
var TLSParams = []lockport.Param{
	{Name: "ca", Text: "file with the CA certificates (PEM) that verify the servers; default: the system's"},
	{Name: "cert", Text: "file with the client's certificate (PEM)"},
	{Name: "key", Text: "file with its key"},
	{Name: "servername", Text: "the name that the servers' certificates must have; default: the host"},
}

// tlsConfig makes a client's configuration of TLS 1.2 or newer from the files that a URL names; empty names are allowed. ca has the CA certificates
// (PEM), which replace the system's; cert and key are the client's own. Errors name the parameter.
func tlsConfig(ca, cert, key, serverName string) (*tls.Config, error) {
	t := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: serverName}
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return nil, fmt.Errorf("the URL parameter ca: %w", err)
		}
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("the URL parameter ca: there is no certificate (PEM) in %s", ca)
		}
	}
	if (cert == "") != (key == "") {
		return nil, errors.New("the URL parameters cert and key belong together: give both or none")
	}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("the URL parameters cert and key: %w", err)
		}
		t.Certificates = []tls.Certificate{pair}
	}
	return t, nil
}
