// Package secure makes certificates at run time, and the TLS 1.3 configurations of
// both ends.
//
//  1. A server calls Issue and serves with the Identity's configuration.
//  2. It passes Identity.RootPEM to its clients.
//  3. A client makes its configuration from that.
//
// Nothing is written to a disk, and no key leaves its process.
//
// Glossary:
//
//	root      the authority that issued an Identity, made for it alone
//	leaf      the certificate that the server sends
//	group     the key exchange of the handshake (RFC 8446, section 4.2.7)
//
// This package must not know what is carried over the connections.
package secure

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"

	"wirelab.dev/internal/base/tuning"
)

// Trust says which servers a client trusts.
type Trust struct {
	// RootPEM is the trusted root. Empty: the system's roots.
	RootPEM []byte
	// SkipVerify accepts any certificate, of a server that is known only by its address.
	SkipVerify bool
}

// ClientConfig returns a client's configuration for the server at HOST:PORT that offers these
// protocols. The caller owns it, and sets a session cache to resume sessions.
func (c Choice) ClientConfig(address string, trust Trust, protocols ...string) (*tls.Config, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("TLS to %s: %w", address, err)
	}
	config := &tls.Config{ServerName: host, NextProtos: protocols}
	c.apply(config)
	if !trust.Apply(config) {
		return nil, errors.New("TLS: the root to trust holds no certificate in PEM form")
	}
	return config, nil
}

// Apply sets the trust, and reports whether RootPEM holds a certificate, if there is one.
func (t Trust) Apply(to *tls.Config) (ok bool) {
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
	_ = t.Apply(&config)
	return tuning.Differences(tuning.Client, "tls.Config", &config, &tls.Config{}, tuning.Reasons{
		"RootCAs":            {Value: "the server's own", Default: "the system's", Why: "the certificate is made when the server starts"},
		"InsecureSkipVerify": {Why: "the server is known by its address alone"},
	})
}

// Certificate is the kind of a server's key.
type Certificate string

// The kinds of certificates.
const (
	ECDSA Certificate = "ecdsa" // on P-256
	RSA   Certificate = "rsa"   // of 2,048 bits
)

// Certificates lists the kinds, the default first.
func Certificates() []string { return []string{string(ECDSA), string(RSA)} }

// Group is a key exchange.
type Group string

// The groups. Hybrid is what Go offers first since 1.24: X25519 together with
// ML-KEM-768, which also holds against quantum computers.
const (
	Hybrid Group = "x25519mlkem768"
	X25519 Group = "x25519"
	P256   Group = "p256"
)

// Groups lists the groups, the default first.
func Groups() []string { return []string{string(Hybrid), string(X25519), string(P256)} }

var curves = map[Group]tls.CurveID{
	Hybrid: tls.X25519MLKEM768,
	X25519: tls.X25519,
	P256:   tls.CurveP256,
}

// Choice holds what a variant may choose in a handshake. The zero value is the
// default: an ECDSA certificate, and the key exchange that Go prefers.
type Choice struct {
	Certificate Certificate
	Group       Group
}

// Check returns an error for an unknown certificate or group.
func (c Choice) Check() error {
	if _, known := curves[c.Group]; !known && c.Group != "" {
		return fmt.Errorf("key exchange %q: want one of %s", c.Group, strings.Join(Groups(), ", "))
	}
	switch c.Certificate {
	case "", ECDSA, RSA:
		return nil
	}
	return fmt.Errorf("certificate %q: want one of %s", c.Certificate, strings.Join(Certificates(), ", "))
}

// apply sets only what was chosen, so that measurements use Go's defaults as everybody does.
func (c Choice) apply(to *tls.Config) {
	to.MinVersion = tls.VersionTLS13
	if c.Group != "" {
		to.CurvePreferences = []tls.CurveID{curves[c.Group]}
	}
}

// Settings lists the settings of both ends that differ from crypto/tls's defaults.
func (c Choice) Settings() []tuning.Setting {
	var config tls.Config
	c.apply(&config)
	return tuning.Differences(tuning.Both, "tls.Config", &config, &tls.Config{}, tuning.Reasons{
		"MinVersion":       {Value: tls.VersionName(config.MinVersion), Default: "TLS 1.2", Why: "every variant shakes hands alike, and QUIC has no other version"},
		"CurvePreferences": {Default: "all that crypto/tls has, X25519MLKEM768 first", Why: "the variant's option group"},
	})
}
