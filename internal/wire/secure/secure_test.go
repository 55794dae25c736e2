package secure_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"

	"wirelab.dev/internal/wire/secure"
)

// shake lets two ends meet and returns what the client made of it. A pipe would
// not do: both ends write at once.
func shake(t *testing.T, server, client *tls.Config) (tls.ConnectionState, error) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	defer serving.Wait()
	defer func() { _ = listener.Close() }()
	serving.Go(func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		_ = tls.Server(conn, server).HandshakeContext(t.Context()) // the client tells how it went
		_ = conn.Close()
	})
	raw, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	conn := tls.Client(raw, client)
	defer func() { _ = raw.Close() }()
	err = conn.HandshakeContext(t.Context())
	return conn.ConnectionState(), err
}

func TestEveryChoiceShakesHands(t *testing.T) {
	groups := map[string]tls.CurveID{"x25519mlkem768": tls.X25519MLKEM768, "x25519": tls.X25519, "p256": tls.CurveP256}
	for _, kind := range secure.Certificates() {
		for _, group := range secure.Groups() {
			t.Run(kind+"/"+group, func(t *testing.T) {
				choice := secure.Choice{Certificate: secure.Certificate(kind), Group: secure.Group(group)}
				identity, err := secure.Issue(choice, secure.NoFlaw)
				if err != nil {
					t.Fatal(err)
				}
				client, err := choice.ClientConfig("127.0.0.1:1", secure.Trust{RootPEM: identity.RootPEM()}, "x")
				if err != nil {
					t.Fatal(err)
				}
				state, err := shake(t, identity.ServerConfig("x"), client)
				if err != nil {
					t.Fatal(err)
				}
				algorithm := map[string]x509.PublicKeyAlgorithm{"ecdsa": x509.ECDSA, "rsa": x509.RSA}[kind]
				if state.Version != tls.VersionTLS13 || state.CurveID != groups[group] || state.NegotiatedProtocol != "x" ||
					state.PeerCertificates[0].PublicKeyAlgorithm != algorithm {
					t.Errorf("version %x, group %v, protocol %q, key %v", state.Version, state.CurveID, state.NegotiatedProtocol, state.PeerCertificates[0].PublicKeyAlgorithm)
				}
			})
		}
	}
}

func TestFlawsAreNoticed(t *testing.T) {
	unknown, wrongName, invalid := x509.UnknownAuthorityError{}, x509.HostnameError{}, x509.CertificateInvalidError{}
	for name, c := range map[string]struct {
		flaw     secure.Flaw
		stranger bool
		want     any
	}{
		"expired":    {flaw: secure.Expired, want: &invalid},
		"wrong name": {flaw: secure.WrongName, want: &wrongName},
		"stranger":   {stranger: true, want: &unknown},
	} {
		t.Run(name, func(t *testing.T) {
			identity, err := secure.Issue(secure.Choice{}, c.flaw)
			if err != nil {
				t.Fatal(err)
			}
			trust := secure.Trust{RootPEM: identity.RootPEM()}
			if c.stranger {
				other, err := secure.Issue(secure.Choice{}, secure.NoFlaw)
				if err != nil {
					t.Fatal(err)
				}
				trust.RootPEM = other.RootPEM()
			}
			client, err := secure.Choice{}.ClientConfig("127.0.0.1:1", trust)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := shake(t, identity.ServerConfig(), client); !errors.As(err, c.want) {
				t.Errorf("the handshake ended with %v, want a %T", err, c.want)
			}
			client.InsecureSkipVerify = true // what Trust.SkipVerify sets
			if _, err := shake(t, identity.ServerConfig(), client); err != nil {
				t.Errorf("unverified: %v", err)
			}
		})
	}
}

func TestWrongChoices(t *testing.T) {
	for _, choice := range []secure.Choice{{Group: "p384"}, {Certificate: "dsa"}} {
		if _, err := secure.Issue(choice, secure.NoFlaw); err == nil || !strings.Contains(err.Error(), "want one of") {
			t.Errorf("%+v: %v", choice, err)
		}
	}
	if _, err := (secure.Choice{}).ClientConfig("nowhere", secure.Trust{}); err == nil {
		t.Error("an address without a port was taken")
	}
	if _, err := (secure.Choice{}).ClientConfig("127.0.0.1:1", secure.Trust{RootPEM: []byte("none")}); err == nil {
		t.Error("a root that is none was taken")
	}
}
