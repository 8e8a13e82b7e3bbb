package servers

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
)

// Names of the PEM files in a server's folder.
const certFile, keyFile = "server.crt", "server.key"

// certified has the certificate of net/http/httptest, for 127.0.0.1 and example.com, which signs itself. All servers share it.
var certified = sync.OnceValue(func() *httptest.Server {
	s := httptest.NewTLSServer(nil)
	s.Close()
	return s
})

func writeTLS(dir string) error {
	write := func(name, kind string, content []byte) error {
		return os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}), 0o600)
	}
	pair := certified().TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	return errors.Join(err, write(certFile, "CERTIFICATE", pair.Certificate[0]), write(keyFile, "PRIVATE KEY", key))
}

// TLSConfig returns a client configuration that trusts the server's certificate, or nil without TLS. The caller owns the result.
func (s *Server) TLSConfig() *tls.Config {
	if !s.tls {
		return nil
	}
	roots := x509.NewCertPool()
	roots.AddCert(certified().Certificate())
	return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
}

// CAFile returns the PEM file of the authority that signed the server's certificate. Without TLS the file does not exist.
func (s *Server) CAFile() string { return filepath.Join(s.dir, certFile) }
