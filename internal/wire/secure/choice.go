package secure

import (
	"crypto/tls"
	"fmt"
	"strings"

	"wirelab.dev/internal/base/tuning"
)

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

// apply sets only what was chosen. Go's defaults stay, so that measurements use what
// everybody has.
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
