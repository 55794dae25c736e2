package reach

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"wirelab.dev/internal/data/scenario"
)

func TestWhatListensIsFound(t *testing.T) {
	serve := func(start func(*httptest.Server), set func(*http.Server)) string {
		s := httptest.NewUnstartedServer(http.NotFoundHandler())
		s.Config.ErrorLog = nil
		set(s.Config)
		start(s)
		t.Cleanup(s.Close)
		return s.Listener.Addr().String()
	}
	protocols := func(set func(*http.Protocols)) func(*http.Server) {
		return func(s *http.Server) {
			s.Protocols = &http.Protocols{}
			set(s.Protocols)
		}
	}
	http2TLS := func(s *httptest.Server) {
		s.EnableHTTP2 = true
		s.StartTLS()
	}
	closed := listen(t)
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	hangsUp := listen(t)
	go func() { // ends with the listener
		for {
			conn, err := hangsUp.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	}()
	for _, test := range []struct {
		name, address string
		want          Listener
	}{
		{"HTTP/1.1", serve((*httptest.Server).Start, protocols(func(p *http.Protocols) { p.SetHTTP1(true) })), Listener{Protocol: "HTTP/1.1"}},
		{"HTTP/2", serve((*httptest.Server).Start, protocols(func(p *http.Protocols) { p.SetUnencryptedHTTP2(true) })), Listener{Protocol: "HTTP/2"}},
		{"HTTP/1.1 and HTTP/2", serve((*httptest.Server).Start, protocols(func(p *http.Protocols) { p.SetHTTP1(true); p.SetUnencryptedHTTP2(true) })), Listener{Protocol: "HTTP/1.1", HTTP2: true}},
		{"HTTP/1.1 over TLS", serve((*httptest.Server).StartTLS, func(*http.Server) {}), Listener{TLS: true, Protocol: "HTTP/1.1"}},
		{"HTTP/2 over TLS", serve(http2TLS, func(*http.Server) {}), Listener{TLS: true, Protocol: "HTTP/2"}},
		{"one that hangs up", hangsUp.Addr().String(), Listener{}},
	} {
		if got := Probe(t.Context(), test.address); got != test.want {
			t.Errorf("%s: found %+v, want %+v", test.name, got, test.want)
		}
	}
	if got := Probe(t.Context(), closed.Addr().String()); got.Err == nil {
		t.Errorf("nothing listens, and %+v was found", got)
	}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return listener
}

// A server that may be the right one is given longer to answer.
func TestWhatMayBeTheRightServer(t *testing.T) {
	for _, test := range []struct {
		variant string
		found   Listener
		may     bool
	}{
		{"tcp", Listener{}, true},
		{"tcp", Listener{Protocol: "HTTP/1.1"}, false},
		{"tcp", Listener{TLS: true}, false},
		{"tcp:tls=on", Listener{TLS: true}, true},
		{"grpc", Listener{Protocol: "HTTP/2"}, true},
		{"grpc", Listener{Protocol: "HTTP/1.1"}, false},
		{"grpc", Listener{Protocol: "HTTP/1.1", HTTP2: true}, true},
		{"grpc", Listener{Err: net.ErrClosed}, false},
	} {
		variant, err := scenario.ParseVariant(test.variant)
		if err != nil {
			t.Fatal(err)
		}
		fault := Fault{Variant: variant, Found: test.found}
		if got := fault.MayMatch(); got != test.may {
			t.Errorf("%s at %+v: %v, want %v", test.variant, test.found, got, test.may)
		}
	}
}
