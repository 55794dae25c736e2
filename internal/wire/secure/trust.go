package secure

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"

	"wirelab.dev/internal/base/tuning"
)

// Trust says which servers a client trusts.
type Trust struct {
	// RootPEM is the trusted root. Empty: the system's roots.
	RootPEM []byte
	// SkipVerify accepts any certificate. It is for a server that is known only by its
	// address.
	SkipVerify bool
}

// ClientConfig returns a client's configuration for the server at address, HOST:PORT,
// that offers these application protocols. The caller owns it, and sets a session
// cache to resume sessions.
func (c Choice) ClientConfig(address string, trust Trust, protocols ...string) (*tls.Config, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("TLS to %s: %w", address, err)
	}
	config := &tls.Config{ServerName: host, NextProtos: protocols}
	c.apply(config)
	if !trust.apply(config) {
		return nil, errors.New("TLS: the root to trust holds no certificate in PEM form")
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

// Settings lists the settings of t that differ from crypto/tls's defaults.
func (t Trust) Settings() []tuning.Setting {
	var config tls.Config
	_ = t.apply(&config)
	return tuning.Differences(tuning.Client, "tls.Config", &config, &tls.Config{}, tuning.Reasons{
		"RootCAs":            {Value: "the server's own", Default: "the system's", Why: "the certificate is made when the server starts"},
		"InsecureSkipVerify": {Why: "the server is known by its address alone"},
	})
}
