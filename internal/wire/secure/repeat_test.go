package secure_test

import (
	"crypto/tls"
	"testing"

	"wirelab.dev/internal/wire/secure"
)

// TestRepeatedConnections wants a repeated configuration to agree on the same, and to
// refuse a certificate that nobody trusts.
func TestRepeatedConnections(t *testing.T) {
	issue := func() *secure.Identity {
		identity, err := secure.Issue(secure.Choice{}, secure.NoFlaw)
		if err != nil {
			t.Fatal(err)
		}
		return identity
	}
	trusted, stranger := issue(), issue()
	config, err := secure.Choice{}.ClientConfig("127.0.0.1:1", secure.Trust{RootPEM: trusted.RootPEM()})
	if err != nil {
		t.Fatal(err)
	}
	config.MinVersion = tls.VersionTLS12
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		server := trusted.ServerConfig()
		server.MinVersion, server.MaxVersion = version, version
		server.CurvePreferences = []tls.CurveID{tls.X25519, tls.CurveP256}
		certificate := server.Certificates[0]
		server.Certificates = nil // GetCertificate looks, as other libraries do, whether the client takes it
		server.GetCertificate = func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			return &certificate, hello.SupportsCertificate(&certificate)
		}
		first, err := shake(t, server, config)
		if err != nil {
			t.Fatal(err)
		}
		again := secure.Repeat(config, first)
		for range 2 {
			got, err := shake(t, server, again)
			if err != nil || got.Version != version || got.CurveID != first.CurveID {
				t.Errorf("version %x and group %v, %v; want %x and %v", got.Version, got.CurveID, err, version, first.CurveID)
			}
		}
		other := stranger.ServerConfig()
		other.MinVersion, other.MaxVersion = version, version
		if _, err := shake(t, other, again); err == nil {
			t.Error("a certificate that nobody trusts was accepted")
		}
	}
}
