package protocol

import (
	"bytes"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"net/url"
	"os"
	"strings"

	"github.com/nats-io/nkeys"
)

// Credentials let an agent or a controller into a fleet.
type Credentials struct {
	Project string
	URLs    []string // of the hub, tried in this order
	RootPEM []byte   // signs the hub's certificate; none: a root that the system trusts
	Seed    []byte   // of a user's nkey: opens the hub
	JWT     string   // besides the seed, if the user's own NATS needs one
	// OrdersKey is the public nkey that orders are signed with, OrdersSeed the secret one, which
	// only controllers have.
	OrdersKey  string
	OrdersSeed []byte
}

// The roles of credentials.
const (
	RoleAgent      = "agent"
	RoleController = "controller"
)

// Roles lists them.
func Roles() []string { return []string{RoleAgent, RoleController} }

// Role returns the role that the credentials are for.
func (c *Credentials) Role() string {
	if len(c.OrdersSeed) > 0 {
		return RoleController
	}
	return RoleAgent
}

const (
	tokenPrefix    = "wl1."
	mostTokenBytes = 16 << 10
	mostURLs       = 16
)

// CertificatePEM is the type of a certificate's PEM block (RFC 7468, section 5.1).
const CertificatePEM = "CERTIFICATE"

// A wire is the content of a token. ASN.1 is short; JSON would encode bytes in base64 twice.
type wire struct {
	Project    string `asn1:"utf8"`
	URLs       []string
	Root       []byte
	Seed       []byte
	JWT        string `asn1:"utf8"`
	OrdersKey  string `asn1:"utf8"`
	OrdersSeed []byte
}

var (
	tokenEncoding = base64.RawURLEncoding.Strict()
	checksums     = crc32.MakeTable(crc32.Castagnoli)
)

// Token returns the credentials as one word, to be copied to another machine. It is a secret.
func (c *Credentials) Token() string {
	root, _ := pem.Decode(c.RootPEM)
	if root == nil {
		root = &pem.Block{}
	}
	payload, err := asn1.Marshal(wire{
		Project: c.Project, URLs: c.URLs, Root: root.Bytes, Seed: c.Seed, JWT: c.JWT,
		OrdersKey: c.OrdersKey, OrdersSeed: c.OrdersSeed,
	})
	if err != nil { // fails only for text that is not UTF-8, which Check refuses
		panic(fmt.Sprintf("fleet: credentials that were not checked: %v", err))
	}
	payload = binary.BigEndian.AppendUint32(payload, crc32.Checksum(payload, checksums))
	return tokenPrefix + tokenEncoding.EncodeToString(payload)
}

// ParseToken reads a token. Its errors contain no part of the token.
func ParseToken(text string) (*Credentials, error) {
	text = strings.TrimSpace(text)
	coded, found := strings.CutPrefix(text, tokenPrefix)
	if !found {
		if len(text) > len(tokenPrefix) && strings.HasPrefix(text, "wl") && text[3] == '.' {
			return nil, errors.New("the token is from another version of wirelab: run the same version on all machines of a fleet")
		}
		return nil, fmt.Errorf("this is not a token: a token begins with %q; wirelab fleet token prints one", tokenPrefix)
	}
	if len(coded) > mostTokenBytes {
		return nil, fmt.Errorf("the token has %d characters, at most %d are read", len(coded), mostTokenBytes)
	}
	const spoilt = "the token is cut or mistyped (%s): copy it whole, wirelab fleet token prints it again"
	payload, err := tokenEncoding.DecodeString(coded)
	if err != nil {
		return nil, fmt.Errorf(spoilt, "a character is wrong or missing")
	}
	const sumBytes = 4
	if len(payload) < sumBytes {
		return nil, fmt.Errorf(spoilt, "almost nothing is left")
	}
	payload, sum := payload[:len(payload)-sumBytes], payload[len(payload)-sumBytes:]
	if binary.BigEndian.Uint32(sum) != crc32.Checksum(payload, checksums) {
		return nil, fmt.Errorf(spoilt, "its checksum is wrong")
	}
	var w wire
	if rest, err := asn1.Unmarshal(payload, &w); err != nil || len(rest) > 0 {
		return nil, errors.New("the token is complete, but this wirelab does not write such tokens: run the same version on all machines of a fleet")
	}
	c := &Credentials{
		Project: w.Project, URLs: w.URLs, Seed: w.Seed, JWT: w.JWT,
		OrdersKey: w.OrdersKey,
	}
	if len(w.OrdersSeed) > 0 {
		c.OrdersSeed = w.OrdersSeed
	}
	if len(w.Root) > 0 {
		c.RootPEM = pem.EncodeToMemory(&pem.Block{Type: CertificatePEM, Bytes: w.Root})
	}
	if err := c.Check(); err != nil {
		return nil, fmt.Errorf("the token: %w", err)
	}
	return c, nil
}

// Check says what is wrong with the credentials.
func (c *Credentials) Check() error {
	if err := CheckProject(c.Project); err != nil {
		return err
	}
	if len(c.URLs) == 0 || len(c.URLs) > mostURLs {
		return fmt.Errorf("%d URLs of the hub: want 1 to %d", len(c.URLs), mostURLs)
	}
	for _, text := range c.URLs {
		if err := CheckURL(text); err != nil {
			return err
		}
	}
	if len(c.RootPEM) > 0 {
		if err := checkRoot(c.RootPEM); err != nil {
			return err
		}
	}
	if strings.ToValidUTF8(c.JWT, "") != c.JWT {
		return errors.New("the JWT is no text")
	}
	if err := checkSeed(c.Seed, nkeys.PrefixByteUser); err != nil {
		return fmt.Errorf("the key that opens the hub: %w", err)
	}
	if !nkeys.IsValidPublicAccountKey(c.OrdersKey) {
		return errors.New("the key that orders are signed with is no public nkey of an account")
	}
	if len(c.OrdersSeed) == 0 {
		return nil
	}
	if err := checkSeed(c.OrdersSeed, nkeys.PrefixByteAccount); err != nil {
		return fmt.Errorf("the key to sign orders with: %w", err)
	}
	if PublicOf(c.OrdersSeed) != c.OrdersKey {
		return errors.New("the key to sign orders with is not that of the fleet")
	}
	return nil
}

// CheckURL checks the URL of a hub: its scheme, its host and its port.
func CheckURL(text string) error {
	u, err := url.Parse(text)
	if err != nil {
		return errors.New("the hub's URL cannot be read: want nats://HOST:PORT or tls://HOST:PORT")
	}
	if u.User != nil {
		return errors.New("the hub's URL has a user or a password in it: the token has the credentials")
	}
	if (u.Scheme != "nats" && u.Scheme != "tls") || u.Hostname() == "" || u.Port() == "" || u.RequestURI() != "/" {
		return fmt.Errorf("the hub's URL is %q: want nats://HOST:PORT or tls://HOST:PORT", text)
	}
	return nil
}

func checkRoot(rootPEM []byte) error {
	block, rest := pem.Decode(rootPEM)
	if block == nil || block.Type != CertificatePEM || len(bytes.TrimSpace(rest)) > 0 {
		return errors.New("the root is not one certificate in PEM")
	}
	if _, err := x509.ParseCertificate(block.Bytes); err != nil {
		return fmt.Errorf("the root: %w", err)
	}
	return nil
}

// checkSeed checks a seed. Its error leaves out the error of nkeys, which may contain the seed.
func checkSeed(seed []byte, want nkeys.PrefixByte) error {
	if prefix, _, err := nkeys.DecodeSeed(seed); err != nil || prefix != want {
		return fmt.Errorf("want the seed of an nkey of kind %s", want)
	}
	return nil
}

// PublicOf returns the public key of a seed that was checked.
func PublicOf(seed []byte) string {
	pair, err := nkeys.FromSeed(seed)
	if err != nil {
		return ""
	}
	public, err := pair.PublicKey()
	if err != nil {
		return ""
	}
	return public
}

// String names the credentials, without their secrets.
func (c Credentials) String() string {
	return fmt.Sprintf("credentials of a fleet's %s (project %s, %s)", c.Role(), c.Project, strings.Join(c.URLs, ", "))
}

// Format keeps secrets out of all verbs.
func (c Credentials) Format(to fmt.State, _ rune) { _, _ = io.WriteString(to, c.String()) }

// MarshalText keeps secrets out of JSON and of logs.
func (c Credentials) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// JoinLine returns the command that makes another machine an agent. The token is not an argument,
// which other users could read.
func JoinLine(c *Credentials) string {
	return fmt.Sprintf("WIRELAB_TOKEN=%s wirelab agent --nats %s --name NAME --labels role=client", c.Token(), strings.Join(c.URLs, ","))
}

// AreLoopback reports whether only this machine reaches the URLs.
func AreLoopback(urls []string) bool {
	for _, text := range urls {
		u, err := url.Parse(text)
		if err != nil {
			return false
		}
		if ip := net.ParseIP(u.Hostname()); ip == nil || !ip.IsLoopback() {
			return false
		}
	}
	return true
}

// TokenVariable is the environment variable for a token. Other users can read flags, but not it.
const TokenVariable = "WIRELAB_TOKEN"

// ReadTokenFile reads a token from a file.
func ReadTokenFile(path string) (*Credentials, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the token: %w", err)
	}
	defer file.Close()                                              //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.LimitReader(file, 2*mostTokenBytes)) // the file may never end
	if err != nil {
		return nil, fmt.Errorf("read the token: %w", err)
	}
	c, err := ParseToken(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}
