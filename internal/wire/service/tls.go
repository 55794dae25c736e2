package service

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"wirelab.dev/internal/wire/http"
)

// TLSConfig is a client's configuration for the target, or nil without TLS. Unlike the
// laboratory's own stacks it takes TLS 1.2, too: the target is as it is.
func (d *Definition) TLSConfig() (*tls.Config, error) {
	if d.TLS == nil {
		return nil, nil
	}
	config := &tls.Config{
		MinVersion: tls.VersionTLS12, ServerName: d.TLS.ServerName, NextProtos: d.Wire.Version().Protocols(),
		InsecureSkipVerify: d.TLS.Trust.SkipVerify, //nolint:gosec // the user says so
	}
	if len(d.TLS.Trust.RootPEM) > 0 {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(d.TLS.Trust.RootPEM) {
			return nil, errors.New("the root to trust holds no certificate in PEM form")
		}
	}
	if len(d.TLS.Certificate) > 0 {
		own, err := tls.X509KeyPair(d.TLS.Certificate, d.TLS.Key)
		if err != nil {
			return nil, fmt.Errorf("the client's certificate: %w", err)
		}
		config.Certificates = []tls.Certificate{own}
	}
	return config, nil
}

// Version returns the version of HTTP that carries the wire.
func (w Wire) Version() httpwire.Version {
	switch w {
	case HTTP1:
		return httpwire.HTTP1
	case HTTP3, GRPCH3:
		return httpwire.HTTP3
	default:
		return httpwire.HTTP2
	}
}
