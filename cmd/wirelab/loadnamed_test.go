package main

import (
	"crypto/tls"
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/quic-go/quic-go/http3"
	"github.com/rogpeppe/go-internal/testscript"

	"wirelab.dev/internal/wire/secure"
)

// TestNamedScripts load a server that chooses its certificate by the name in the handshake. Only
// shop.example.com has a trusted one. The header fields of an answer say how the client named the
// server, and which secrets it sent.
func TestNamedScripts(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Host-Was", r.Host)
		w.Header().Set("Name-Was", r.TLS.ServerName)
		w.Header().Set("Secrets-Were", r.Header.Get("Authorization")+" "+r.Header.Get("X-Order"))
	}))
	wrong, err := secure.Issue(secure.Choice{}, secure.WrongName)
	if err != nil {
		t.Fatal(err)
	}
	server.EnableHTTP2 = true
	server.TLS = &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if hello.ServerName == "shop.example.com" {
			return nil, nil
		}
		return wrong.ServerConfig(hello.SupportedProtos...), nil
	}}
	server.StartTLS()
	t.Cleanup(server.Close)
	address := server.Listener.Addr().(*net.TCPAddr)
	packets, err := net.ListenUDP("udp", &net.UDPAddr{IP: address.IP, Port: address.Port})
	if err != nil {
		t.Fatal(err)
	}
	overQUIC := &http3.Server{Handler: server.Config.Handler, TLSConfig: http3.ConfigureTLSConfig(&tls.Config{Certificates: server.TLS.Certificates})}
	var serving sync.WaitGroup
	serving.Go(func() { _ = overQUIC.Serve(packets) }) // ends with Close
	t.Cleanup(func() {
		_ = overQUIC.Close()
		_ = packets.Close()
		serving.Wait()
	})
	params := scripts(t, "named")
	params.Cmds["loads"] = loads
	setup := params.Setup
	params.Setup = func(env *testscript.Env) error {
		_, port, err := net.SplitHostPort(address.String())
		if err != nil {
			return err
		}
		env.Setenv("PORT", port)
		env.Setenv("CA", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
		return setup(env)
	}
	testscript.Run(t, params)
}
