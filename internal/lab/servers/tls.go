package servers

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Names of the PEM files in a server's folder.
const certFile, keyFile = "server.crt", "server.key"

// selfSigned makes the self-signed certificate and its key. All servers of this process share them, so that they trust each other.
var selfSigned = sync.OnceValues(func() (files map[string][]byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	cert := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		DNSNames:              []string{"localhost"},
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(24 * time.Hour),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, // replicas are clients
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	certDER, err1 := x509.CreateCertificate(rand.Reader, cert, cert, key.Public(), key)
	keyDER, err2 := x509.MarshalPKCS8PrivateKey(key)
	return map[string][]byte{
		certFile: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certDER}),
		keyFile:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}),
	}, errors.Join(err1, err2)
})

// writeTLS writes the two files into dir.
func writeTLS(dir string) error {
	files, err := selfSigned()
	for name, content := range files {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	return err
}

// clientTLS returns a configuration that trusts the certificate. If there is no certificate it trusts nobody; writeTLS reports that error.
func clientTLS() *tls.Config {
	files, _ := selfSigned()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(files[certFile])
	return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
}
