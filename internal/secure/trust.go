package secure

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
)

// Trust is what a client believes of the server that it calls.
type Trust struct {
	// RootPEM is the root to be trusted. Empty: those of the system.
	RootPEM []byte
	// SkipVerify takes any certificate: for a server that is no more than
	// its address.
	SkipVerify bool
}

// ClientConfig is a client's end towards address, HOST:PORT, asking for these
// application protocols. The caller owns it, and puts a session cache in where
// it wants to resume.
func (c Choice) ClientConfig(address string, trust Trust, protocols ...string) (*tls.Config, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("TLS to %s: %w", address, err)
	}
	config := &tls.Config{ServerName: host, NextProtos: protocols, InsecureSkipVerify: trust.SkipVerify}
	c.apply(config)
	if len(trust.RootPEM) > 0 {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(trust.RootPEM) {
			return nil, errors.New("TLS: the root that is to be trusted holds no certificate in PEM form")
		}
	}
	return config, nil
}
