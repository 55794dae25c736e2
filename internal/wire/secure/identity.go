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
	"fmt"
	"math/big"
	"net"
	"slices"
	"sync"
	"time"
)

// Names that a leaf is valid for, without a Flaw.
var (
	dnsNames    = []string{"localhost"}
	ipAddresses = []net.IP{
		net.IPv4(127, 0, 0, 1), net.IPv6loopback,
		net.IPv4(198, 18, 0, 2), // the server's end of an emulated link
	}
)

var (
	alsoGuard sync.Mutex
	also      []net.IP
)

// AlsoFor makes later certificates valid for another address of this machine, for calls from
// other machines. Certificates on loopback keep their size without it.
func AlsoFor(ip net.IP) {
	alsoGuard.Lock()
	defer alsoGuard.Unlock()
	known := func(one net.IP) bool { return one.Equal(ip) }
	if !slices.ContainsFunc(ipAddresses, known) && !slices.ContainsFunc(also, known) {
		also = append(also, ip)
	}
}

// addresses returns the addresses that a leaf is valid for.
func addresses() []net.IP {
	alsoGuard.Lock()
	defer alsoGuard.Unlock()
	return slices.Concat(ipAddresses, also)
}

// Lifetimes. Clocks of two machines differ; a run does not take a day.
const (
	backdated = time.Hour
	lifetime  = 24 * time.Hour
)

// Flaw is a deliberate fault of a leaf, to test how a stack reports it.
type Flaw int

// The flaws.
const (
	NoFlaw    Flaw = iota
	Expired        // an hour ago
	WrongName      // for another host
)

// Identity is a server's certificate with its key, and the root that issued it.
type Identity struct {
	choice Choice
	leaf   tls.Certificate
	root   []byte // DER
}

// Issue makes an identity. It keeps no copy of the root's key.
func Issue(choice Choice, flaw Flaw) (*Identity, error) {
	if err := choice.Check(); err != nil {
		return nil, err
	}
	rootKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the root's key: %w", err)
	}
	root := template("wirelab root", 1)
	root.IsCA, root.BasicConstraintsValid, root.KeyUsage = true, true, x509.KeyUsageCertSign
	rootDER, err := x509.CreateCertificate(rand.Reader, root, root, rootKey.Public(), rootKey)
	if err != nil {
		return nil, fmt.Errorf("make the root: %w", err)
	}
	key, err := newKey(choice.Certificate)
	if err != nil {
		return nil, fmt.Errorf("make the server's key: %w", err)
	}
	leaf := template("wirelab server", 2)
	leaf.KeyUsage, leaf.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	leaf.DNSNames, leaf.IPAddresses = dnsNames, addresses()
	switch flaw {
	case Expired:
		leaf.NotBefore, leaf.NotAfter = leaf.NotBefore.Add(-backdated), leaf.NotBefore
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
		NotBefore:    now.Add(-backdated),
		NotAfter:     now.Add(lifetime),
	}
}

const rsaBits = 2048

// rsaKey is shared by the servers of a process: finding primes for each would delay its start.
var rsaKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, rsaBits) })

func newKey(kind Certificate) (crypto.Signer, error) {
	if kind == RSA {
		return rsaKey()
	}
	return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
}

// RootPEM returns the root that a client of the identity's server must trust.
func (i *Identity) RootPEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.root})
}

// ServerConfig returns a server's configuration with these protocols (RFC 7301), for the caller.
func (i *Identity) ServerConfig(protocols ...string) *tls.Config {
	config := &tls.Config{Certificates: []tls.Certificate{i.leaf}, NextProtos: protocols}
	i.choice.apply(config)
	return config
}
