package hub

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"slices"
	"time"

	"wirelab.dev/internal/run/fleet/protocol"
)

// Lifetimes of certificates. A certificate begins in the past, because an agent's clock may be days
// late. It lasts for years, like tokens.
const (
	backdatedBy  = 48 * time.Hour
	rootLifetime = 10 * 365 * 24 * time.Hour
)

// authority issues certificates for hubs. Its key is stored, so tokens stay valid for later hubs.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// makeAuthority makes a root certificate and its private key, both in PEM form.
func makeAuthority() (rootPEM, keyPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make the root's key: %w", err)
	}
	root, err := certificateTemplate("wirelab fleet")
	if err != nil {
		return nil, nil, err
	}
	root.IsCA, root.BasicConstraintsValid, root.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, root, root, key.Public(), key)
	if err != nil {
		return nil, nil, fmt.Errorf("make the root certificate: %w", err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("write the root's key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: protocol.CertificatePEM, Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), nil
}

func readAuthority(rootPEM, keyPEM []byte) (*authority, error) {
	root, _ := pem.Decode(rootPEM)
	key, _ := pem.Decode(keyPEM)
	if root == nil || key == nil {
		return nil, errors.New("the root certificate or its key is not PEM")
	}
	certificate, err := x509.ParseCertificate(root.Bytes)
	if err != nil {
		return nil, fmt.Errorf("parse the root certificate: %w", err)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(key.Bytes)
	if err != nil {
		return nil, fmt.Errorf("parse the root's key: %w", err)
	}
	private, ok := parsed.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("the root's key is a %T: want an ECDSA key", parsed)
	}
	return &authority{certificate, private}, nil
}

// issueConfig makes a TLS configuration with a certificate for these hosts. Hubs of a cluster also
// use the configuration as clients of each other.
func (a *authority) issueConfig(hosts []string) (*tls.Config, error) {
	leaf, err := certificateTemplate("wirelab hub")
	if err != nil {
		return nil, err
	}
	leaf.KeyUsage = x509.KeyUsageDigitalSignature
	leaf.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			leaf.IPAddresses = append(leaf.IPAddresses, ip)
		} else {
			leaf.DNSNames = append(leaf.DNSNames, host)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the hub's key: %w", err)
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, a.certificate, key.Public(), a.key)
	if err != nil {
		return nil, fmt.Errorf("make the hub's certificate: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(a.certificate)
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		RootCAs:      roots, ClientCAs: roots,
	}, nil
}

func certificateTemplate(name string) (*x509.Certificate, error) {
	const serialBits = 120
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), serialBits))
	if err != nil {
		return nil, fmt.Errorf("make a serial number: %w", err)
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-backdatedBy), NotAfter: now.Add(rootLifetime),
	}, nil
}

// reachableHosts lists the names and addresses of a hub for other machines, the most useful first.
func reachableHosts(listen string, more []string) []string {
	hosts := append([]string{}, more...)
	if ip := net.ParseIP(listen); listen != "" && (ip == nil || !ip.IsUnspecified()) {
		hosts = append(hosts, listen)
	} else {
		hosts = append(hosts, ownAddresses()...)
	}
	if name, err := os.Hostname(); err == nil && name != "" {
		hosts = append(hosts, name)
	}
	return append(hosts, "localhost", "127.0.0.1", "::1")
}

// ownAddresses returns this machine's addresses. The address of the default route comes first.
func ownAddresses() []string {
	var all []string
	// Dialling UDP sends nothing: the kernel only chooses an address. RFC 5737 reserves 192.0.2.1.
	if conn, err := net.Dial("udp4", "192.0.2.1:9"); err == nil {
		if at, ok := conn.LocalAddr().(*net.UDPAddr); ok {
			all = append(all, at.IP.String())
		}
		_ = conn.Close()
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return all
	}
	for _, a := range addresses {
		if network, ok := a.(*net.IPNet); ok && network.IP.IsGlobalUnicast() && !slices.Contains(all, network.IP.String()) {
			all = append(all, network.IP.String())
		}
	}
	return all
}
