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
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/nats-io/nkeys"
)

// Credentials let an agent or a controller join a fleet.
type Credentials struct {
	Project string
	Role    string
	Name    string   // of the agent, the controller or the join token; part of the owner's subjects
	URLs    []string // the hub's URLs, which are tried in this order
	RootPEM []byte   // root certificate for the hub's certificate; nil means the system's roots
	Seed    []byte   // secret key (nkey) of the NATS user
	JWT     string   // says who has the key, and what they may do; empty if the user's own NATS needs none
	// OrdersKey is the public key for checking the signatures of orders.
	OrdersKey string
	// OrdersSeed is the secret key (nkey) that signs orders. Only controllers have it.
	OrdersSeed []byte
	// Serve has the ranges of addresses at which the controller expects agents' servers on the
	// user's own NATS. A hub knows the agents' addresses itself.
	Serve []string
}

// The roles of credentials.
const (
	RoleJoin       = "join"       // may become an agent, and nothing else
	RoleAgent      = "agent"      // one agent, with a name
	RoleController = "controller" // gives orders
	RolePrepare    = "prepare"    // prepares the user's own NATS server
)

// Roles lists the roles for which a token can be made.
func Roles() []string { return []string{RoleJoin, RoleController} }

const (
	tokenPrefix   = "wl2."
	maxTokenBytes = 16 << 10
	maxURLs       = 16
)

// CertificatePEM is the type of a certificate's PEM block (RFC 7468, section 5.1).
const CertificatePEM = "CERTIFICATE"

// tokenContent is the content of a token. It is encoded in ASN.1, because JSON would be longer.
type tokenContent struct {
	Project    string `asn1:"utf8"`
	Role       string `asn1:"utf8"`
	Name       string `asn1:"utf8"`
	URLs       []string
	Root       []byte
	Seed       []byte
	JWT        string `asn1:"utf8"`
	OrdersKey  string `asn1:"utf8"`
	OrdersSeed []byte
	Serve      []string
}

var (
	tokenEncoding = base64.RawURLEncoding.Strict()
	checksumTable = crc32.MakeTable(crc32.Castagnoli)
)

// Token encodes the credentials as one word, which a user can copy. The token is secret.
func (c *Credentials) Token() string {
	root, _ := pem.Decode(c.RootPEM)
	if root == nil {
		root = &pem.Block{}
	}
	payload, err := asn1.Marshal(tokenContent{
		Project: c.Project, Role: c.Role, Name: c.Name, URLs: c.URLs, Root: root.Bytes, Seed: c.Seed, JWT: c.JWT,
		OrdersKey: c.OrdersKey, OrdersSeed: c.OrdersSeed, Serve: c.Serve,
	})
	if err != nil { // encoding fails only for invalid UTF-8, which Check refuses
		panic(fmt.Sprintf("fleet: encode credentials that were not checked: %v", err))
	}
	payload = binary.BigEndian.AppendUint32(payload, crc32.Checksum(payload, checksumTable))
	return tokenPrefix + tokenEncoding.EncodeToString(payload)
}

// ParseToken parses a token. Its errors contain no text of the token.
func ParseToken(text string) (*Credentials, error) {
	text = strings.TrimSpace(text)
	coded, found := strings.CutPrefix(text, tokenPrefix)
	if !found {
		if len(text) > len(tokenPrefix) && strings.HasPrefix(text, "wl") && text[3] == '.' {
			return nil, errors.New("the token is from another version of wirelab: run the same version on all machines of a fleet")
		}
		return nil, fmt.Errorf("this is not a token: a token begins with %q; wirelab fleet token prints one", tokenPrefix)
	}
	if len(coded) > maxTokenBytes {
		return nil, fmt.Errorf("the token has %d characters: want at most %d", len(coded), maxTokenBytes)
	}
	const spoilt = "the token is cut or mistyped (%s): copy it whole; `wirelab fleet token` prints it again"
	payload, err := tokenEncoding.DecodeString(coded)
	if err != nil {
		return nil, fmt.Errorf(spoilt, "a character is wrong or missing")
	}
	const sumBytes = 4
	if len(payload) < sumBytes {
		return nil, fmt.Errorf(spoilt, "most of the token is missing")
	}
	payload, sum := payload[:len(payload)-sumBytes], payload[len(payload)-sumBytes:]
	if binary.BigEndian.Uint32(sum) != crc32.Checksum(payload, checksumTable) {
		return nil, fmt.Errorf(spoilt, "its checksum is wrong")
	}
	var w tokenContent
	if rest, err := asn1.Unmarshal(payload, &w); err != nil || len(rest) > 0 {
		return nil, errors.New("the token is complete, but this version of wirelab cannot read it: run the same version on all machines of a fleet")
	}
	c := &Credentials{
		Project: w.Project, Role: w.Role, Name: w.Name, URLs: w.URLs, Seed: w.Seed, JWT: w.JWT,
		OrdersKey: w.OrdersKey,
	}
	if len(w.Serve) > 0 {
		c.Serve = w.Serve
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

// Check returns an error if a part of the credentials is missing or wrong.
func (c *Credentials) Check() error {
	if err := CheckProject(c.Project); err != nil {
		return err
	}
	if !slices.Contains([]string{RoleJoin, RoleAgent, RoleController, RolePrepare}, c.Role) {
		return fmt.Errorf("the role is %.20q: want %s, %s or %s", c.Role, RoleJoin, RoleAgent, RoleController)
	}
	if err := CheckName(c.Name); err != nil {
		return err
	}
	if len(c.URLs) == 0 || len(c.URLs) > maxURLs {
		return fmt.Errorf("the token has %d URLs of the hub: want 1 to %d", len(c.URLs), maxURLs)
	}
	for _, text := range c.URLs {
		if err := CheckURL(text); err != nil {
			return err
		}
	}
	if len(c.RootPEM) > 0 {
		if err := checkRootPEM(c.RootPEM); err != nil {
			return err
		}
	}
	if strings.ToValidUTF8(c.JWT, "") != c.JWT {
		return errors.New("the JWT in the credentials is not valid UTF-8")
	}
	if err := checkSeed(c.Seed, nkeys.PrefixByteUser); err != nil {
		return fmt.Errorf("check the key for the hub: %w", err)
	}
	if !nkeys.IsValidPublicAccountKey(c.OrdersKey) {
		return errors.New("the key that verifies orders is not the public nkey of an account")
	}
	for _, text := range c.Serve {
		if _, err := netip.ParsePrefix(text); err != nil {
			return errors.New("the credentials have a range of addresses that cannot be read")
		}
	}
	if (len(c.OrdersSeed) > 0) != (c.Role == RoleController) {
		return errors.New("only a controller has a key that signs orders")
	}
	if c.Role != RoleController {
		return nil
	}
	if err := checkSeed(c.OrdersSeed, nkeys.PrefixByteAccount); err != nil {
		return fmt.Errorf("check the key that signs orders: %w", err)
	}
	if PublicKeyOf(c.OrdersSeed) != c.OrdersKey {
		return errors.New("the key that signs orders does not belong to this fleet")
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
		return errors.New("the hub's URL has a user or a password: remove it, the token has the credentials")
	}
	if (u.Scheme != "nats" && u.Scheme != "tls") || u.Hostname() == "" || u.Port() == "" || u.RequestURI() != "/" {
		return fmt.Errorf("the hub's URL is %q: want nats://HOST:PORT or tls://HOST:PORT", text)
	}
	return nil
}

func checkRootPEM(rootPEM []byte) error {
	block, rest := pem.Decode(rootPEM)
	if block == nil || block.Type != CertificatePEM || len(bytes.TrimSpace(rest)) > 0 {
		return errors.New("the root certificate must be exactly one PEM certificate")
	}
	if _, err := x509.ParseCertificate(block.Bytes); err != nil {
		return fmt.Errorf("parse the root certificate: %w", err)
	}
	return nil
}

// checkSeed checks a seed. It hides errors of nkeys, since they may contain the seed.
func checkSeed(seed []byte, want nkeys.PrefixByte) error {
	if prefix, _, err := nkeys.DecodeSeed(seed); err != nil || prefix != want {
		return fmt.Errorf("want the seed of an nkey of kind %s", want)
	}
	return nil
}

// NewUserSeed makes the secret key (nkey) of a NATS user.
func NewUserSeed() ([]byte, error) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		return nil, err
	}
	return pair.Seed()
}

// PublicKeyOf returns the public key of a seed. It returns "" if the seed is not valid.
func PublicKeyOf(seed []byte) string {
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

// String describes the credentials without their secrets.
func (c Credentials) String() string {
	return fmt.Sprintf("credentials of a fleet's %s (project %s, %s)", c.Role, c.Project, strings.Join(c.URLs, ", "))
}

// Format prints the result of String for every verb, so it never prints a secret.
func (c Credentials) Format(to fmt.State, _ rune) { _, _ = io.WriteString(to, c.String()) }

// MarshalText returns the result of String: JSON and logs then contain no secret.
func (c Credentials) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// JoinCommand returns the command that makes another machine an agent. The token is in a variable,
// since other users of a machine can read arguments.
func JoinCommand(c *Credentials) string {
	return fmt.Sprintf("WIRELAB_TOKEN=%s wirelab agent --nats %s --name NAME --labels role=client", c.Token(), strings.Join(c.URLs, ","))
}

// AreLoopback reports whether all URLs are on this machine's loopback.
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

// TokenVariable is the environment variable with a token. Unlike a flag, it is private to the user.
const TokenVariable = "WIRELAB_TOKEN"

// ReadTokenFile reads a token from a file and parses the token.
func ReadTokenFile(path string) (*Credentials, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the token: %w", err)
	}
	if err := checkSecretFile(file); err != nil {
		return nil, err
	}
	defer file.Close()                                             //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.LimitReader(file, 2*maxTokenBytes)) // a device may never end
	if err != nil {
		return nil, fmt.Errorf("read the token: %w", err)
	}
	c, err := ParseToken(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// mountedSecrets is the folder of a container for secrets. Only the container can read it, and the
// container engine chooses the modes of its files.
const mountedSecrets = "/run/secrets/"

// checkSecretFile returns an error if others than the owner can read or write a file. The owner's
// group may read it, as a container's user reads a mounted secret.
func checkSecretFile(file *os.File) error {
	const othersMay, groupMayWrite = 0o007, 0o020
	status, err := file.Stat()
	if err != nil {
		return fmt.Errorf("read the token: %w", err)
	}
	if mode := status.Mode(); mode.IsRegular() && !strings.HasPrefix(file.Name(), mountedSecrets) && mode.Perm()&(othersMay|groupMayWrite) != 0 {
		return fmt.Errorf("%s has mode %#o, so other users can read the token or change it: run `chmod 600 %[1]s`, and take a new token if others may have read it", file.Name(), mode.Perm())
	}
	return nil
}
