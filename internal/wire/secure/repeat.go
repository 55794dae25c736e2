package secure

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
)

// Repeat returns a client's configuration for more connections to a server, after a first one with
// config. The client offers only the version and the key exchange that the first connection agreed
// on, because a key that the server does not use costs as much as one that it does. Before TLS 1.3,
// a client sends no key in advance, and its curves also limit the server's certificate: so they all
// stay. A certificate that was verified once is not verified again. The server still proves that it
// has the key.
func Repeat(config *tls.Config, first tls.ConnectionState) *tls.Config {
	again := config.Clone()
	again.MinVersion, again.MaxVersion = first.Version, first.Version
	if first.Version >= tls.VersionTLS13 && first.CurveID != 0 {
		again.CurvePreferences = []tls.CurveID{first.CurveID}
	}
	if config.InsecureSkipVerify || config.VerifyConnection != nil || len(first.PeerCertificates) == 0 {
		return again
	}
	verified := first.PeerCertificates[0].Raw
	again.InsecureSkipVerify = true // VerifyConnection verifies
	again.VerifyConnection = func(now tls.ConnectionState) error {
		switch {
		case len(now.PeerCertificates) == 0:
			return errors.New("the server sent no certificate")
		case bytes.Equal(now.PeerCertificates[0].Raw, verified):
			return nil
		}
		options := x509.VerifyOptions{Roots: config.RootCAs, DNSName: config.ServerName, Intermediates: x509.NewCertPool()}
		for _, certificate := range now.PeerCertificates[1:] {
			options.Intermediates.AddCert(certificate)
		}
		_, err := now.PeerCertificates[0].Verify(options)
		return err
	}
	return again
}
