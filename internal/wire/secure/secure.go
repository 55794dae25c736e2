// Package secure makes certificates at run time, and the TLS 1.3 configurations of both ends.
//
//  1. A server calls Issue and uses Identity.ServerConfig.
//  2. The server passes Identity.RootPEM to its clients.
//  3. A client passes the root to Choice.ClientConfig.
//
// No file is written, and no key leaves its process.
//
// Glossary:
//
//	root      the authority that issued one Identity
//	leaf      the certificate that the server sends
//	group     the key exchange of the handshake (RFC 8446, section 4.2.7)
//
// This package must not know what is carried over the connections.
package secure

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"wirelab.dev/internal/base/tuning"
)

// Trust says which servers a client trusts.
type Trust struct {
	// RootPEM is the trusted root certificate. Empty means the system's roots.
	RootPEM []byte
	// SkipVerify accepts every certificate. It is for servers without a known certificate.
	SkipVerify bool
}

// ClientConfig returns a client's TLS configuration for the server at HOST:PORT. The client offers
// the given protocols. The caller owns the result, and may set a session cache to resume sessions.
func (c Choice) ClientConfig(address string, trust Trust, protocols ...string) (*tls.Config, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("TLS to %s: %w", address, err)
	}
	config := &tls.Config{ServerName: host, NextProtos: protocols}
	c.apply(config)
	if !trust.Apply(config) {
		return nil, errors.New("TLS: the trusted root holds no PEM certificate")
	}
	return config, nil
}

// Apply copies the trust into a TLS configuration. It returns false if RootPEM is set but holds no
// certificate.
func (t Trust) Apply(to *tls.Config) (ok bool) {
	to.InsecureSkipVerify = t.SkipVerify
	if len(t.RootPEM) == 0 {
		return true
	}
	to.RootCAs = x509.NewCertPool()
	return to.RootCAs.AppendCertsFromPEM(t.RootPEM)
}

// Settings lists the trust settings that differ from crypto/tls's defaults.
func (t Trust) Settings() []tuning.Setting {
	var config tls.Config
	_ = t.Apply(&config)
	return tuning.Differences(tuning.Client, "tls.Config", &config, &tls.Config{}, tuning.Reasons{
		"RootCAs":            {Value: "the server's own", Default: "the system's", Why: "the certificate is made when the server starts"},
		"InsecureSkipVerify": {Why: "the client knows the server's address, but no certificate"},
	})
}

// Certificate is the kind of key in a server's certificate.
type Certificate string

// The kinds of certificates.
const (
	ECDSA Certificate = "ecdsa" // a key on the curve P-256
	RSA   Certificate = "rsa"   // a key of 2,048 bits
)

// Certificates lists the kinds, the default first.
func Certificates() []string { return []string{string(ECDSA), string(RSA)} }

// Group is a key exchange method.
type Group string

// These are the supported groups. Since Go 1.24, Go offers Hybrid first: X25519 with ML-KEM-768,
// which also resists quantum computers.
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

// Choice holds a variant's options for the handshake. The zero value selects the defaults: an
// ECDSA certificate, and the key exchange that Go prefers.
type Choice struct {
	Certificate Certificate
	Group       Group
}

// Check returns an error for an unknown certificate or group.
func (c Choice) Check() error {
	if _, known := curves[c.Group]; !known && c.Group != "" {
		return fmt.Errorf("key exchange %q: want one of %s", c.Group, strings.Join(Groups(), ", "))
	}
	if c.Certificate != "" && !slices.Contains(Certificates(), string(c.Certificate)) {
		return fmt.Errorf("certificate %q: want one of %s", c.Certificate, strings.Join(Certificates(), ", "))
	}
	return nil
}

// apply sets only the values that were chosen. All other values stay Go's defaults.
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
		"MinVersion":       {Value: tls.VersionName(config.MinVersion), Default: "TLS 1.2", Why: "all variants use the same TLS version, and QUIC allows no other"},
		"CurvePreferences": {Default: "all that crypto/tls has, X25519MLKEM768 first", Why: "the variant's option group"},
	})
}

// A certificate without a Flaw is valid for these names and addresses.
var (
	dnsNames    = []string{"localhost"}
	ipAddresses = []net.IP{
		net.IPv4(127, 0, 0, 1), net.IPv6loopback,
		net.IPv4(198, 18, 0, 2), // the server's end of an emulated link
	}
)

var (
	extraAddressesMutex sync.Mutex
	extraAddresses      []net.IP
)

// AddAddress makes later certificates valid for another address of this machine, so that other
// machines can call this one. It makes the certificates larger than with loopback addresses alone.
func AddAddress(ip net.IP) {
	extraAddressesMutex.Lock()
	defer extraAddressesMutex.Unlock()
	known := func(one net.IP) bool { return one.Equal(ip) }
	if !slices.ContainsFunc(ipAddresses, known) && !slices.ContainsFunc(extraAddresses, known) {
		extraAddresses = append(extraAddresses, ip)
	}
}

func allAddresses() []net.IP {
	extraAddressesMutex.Lock()
	defer extraAddressesMutex.Unlock()
	return slices.Concat(ipAddresses, extraAddresses)
}

// A certificate's validity begins startsBefore ago, because the clocks of two machines may differ.
// The validity lasts for lifetime, because a run takes less than a day.
const (
	startsBefore = time.Hour
	lifetime     = 24 * time.Hour
)

// Flaw is a deliberate fault of a certificate. Tests use it to check how a stack reports the fault.
type Flaw int

// The flaws.
const (
	NoFlaw    Flaw = iota
	Expired        // expired an hour ago
	WrongName      // issued for another host
)

// Identity holds a server's certificate and key, and the root certificate that issued it.
type Identity struct {
	choice Choice
	leaf   tls.Certificate
	root   []byte // the root certificate in DER form
}

// Issue makes an identity. It does not keep the root's key.
func Issue(choice Choice, flaw Flaw) (*Identity, error) {
	if err := choice.Check(); err != nil {
		return nil, err
	}
	rootKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the root certificate's key: %w", err)
	}
	root := template("wirelab root", 1)
	root.IsCA, root.BasicConstraintsValid, root.KeyUsage = true, true, x509.KeyUsageCertSign
	rootDER, err := x509.CreateCertificate(rand.Reader, root, root, rootKey.Public(), rootKey)
	if err != nil {
		return nil, fmt.Errorf("make the root certificate: %w", err)
	}
	key, err := newKey(choice.Certificate)
	if err != nil {
		return nil, fmt.Errorf("make the server's key: %w", err)
	}
	leaf := template("wirelab server", 2)
	leaf.KeyUsage, leaf.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	leaf.DNSNames, leaf.IPAddresses = dnsNames, allAddresses()
	switch flaw {
	case Expired:
		leaf.NotBefore, leaf.NotAfter = leaf.NotBefore.Add(-startsBefore), leaf.NotBefore
	case WrongName:
		leaf.DNSNames, leaf.IPAddresses = []string{"elsewhere.invalid"}, nil
	}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, root, key.Public(), rootKey)
	if err != nil {
		return nil, fmt.Errorf("make the server's certificate: %w", err)
	}
	parsed, err := x509.ParseCertificate(leafDER)
	if err != nil {
		return nil, fmt.Errorf("read the server's certificate: %w", err)
	}
	return &Identity{
		choice: choice,
		leaf:   tls.Certificate{Certificate: [][]byte{leafDER}, PrivateKey: key, Leaf: parsed},
		root:   rootDER,
	}, nil
}

func template(name string, serial int64) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: big.NewInt(serial),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    now.Add(-startsBefore),
		NotAfter:     now.Add(lifetime),
	}
}

const rsaBits = 2048

// rsaKey is shared by the servers of a process, because making an RSA key is slow.
var rsaKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, rsaBits) })

func newKey(kind Certificate) (crypto.Signer, error) {
	if kind == RSA {
		return rsaKey()
	}
	return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
}

// RootPEM returns the root certificate that the server's clients must trust.
func (i *Identity) RootPEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.root})
}

// ServerConfig returns a new server configuration with these protocols (RFC 7301).
func (i *Identity) ServerConfig(protocols ...string) *tls.Config {
	config := &tls.Config{Certificates: []tls.Certificate{i.leaf}, NextProtos: protocols}
	i.choice.apply(config)
	return config
}
