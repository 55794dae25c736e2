package secure

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"

	"wirelab.dev/internal/tuning"
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
	config := &tls.Config{ServerName: host, NextProtos: protocols}
	c.apply(config)
	if !trust.apply(config) {
		return nil, errors.New("TLS: the root that is to be trusted holds no certificate in PEM form")
	}
	return config, nil
}

func (t Trust) apply(to *tls.Config) (ok bool) {
	to.InsecureSkipVerify = t.SkipVerify
	if len(t.RootPEM) == 0 {
		return true
	}
	to.RootCAs = x509.NewCertPool()
	return to.RootCAs.AppendCertsFromPEM(t.RootPEM)
}

// Settings lists what is not crypto/tls's default in what a client believes.
func (t Trust) Settings() []tuning.Setting {
	var config tls.Config
	_ = t.apply(&config)
	return tuning.Differences(tuning.Client, "tls.Config", &config, &tls.Config{}, tuning.Reasons{
		"RootCAs":            {Value: "the server's own", Default: "the system's", Why: "the certificate is made when the server starts"},
		"InsecureSkipVerify": {Why: "the server is known by its address alone"},
	})
}
