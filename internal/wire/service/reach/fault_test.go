package reach

import (
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"

	"wirelab.dev/internal/base/failure"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/service"
)

func TestFaultsOfTargetsSayWhatToDo(t *testing.T) {
	dial := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	for _, test := range []struct {
		variant string
		fault   Fault
		says    string
	}{
		{"tcp", Fault{Class: failure.Refused, Found: Listener{Err: dial(syscall.ECONNREFUSED)}}, "nothing listens there"},
		{"tcp", Fault{Found: Listener{Err: dial(syscall.EHOSTUNREACH)}}, "the server cannot be reached: dial tcp: no route to host: check the address"},
		{"h3", Fault{Class: failure.HandshakeTimeout, Found: Listener{Err: dial(syscall.ECONNREFUSED)}}, "h3 calls over QUIC, on UDP, and the call failed: no: check that a server of HTTP/3"},
		{"h3", Fault{Class: failure.Certificate + ": unknown authority", Found: Listener{Err: dial(syscall.ECONNREFUSED)}}, "the server's certificate is not trusted"},
		{"tcp", Fault{Class: failure.Deadline}, "found a server that speaks neither TLS nor HTTP, which did not answer a call of tcp"},
		{"tcp:tls=on", Fault{Class: failure.Deadline, Found: Listener{TLS: true}}, "found a server with TLS, which did not answer"},
		{"grpc", Fault{Class: failure.Application, Found: Listener{Protocol: "HTTP/2"}}, "name a served one with --proto and --call"},
	} {
		variant, err := scenario.ParseVariant(test.variant)
		if err != nil {
			t.Fatal(err)
		}
		test.fault.Variant, test.fault.Err = variant, errors.New("no\nand a page")
		if got := test.fault.String(); !strings.Contains(got, test.says) || strings.Contains(got, "page") {
			t.Errorf("%s: it says %q, want something of %q", test.variant, got, test.says)
		}
	}
}

// localhost is both loopback addresses, also where the machine's table of hosts has one.
func TestLocalhostIsBothLoopbacks(t *testing.T) {
	for _, host := range []string{"127.0.0.1", "::1"} {
		t.Run(host, func(t *testing.T) {
			listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", net.JoinHostPort(host, "0"))
			if err != nil {
				t.Skipf("this machine has no such address: %v", err)
			}
			defer listener.Close()
			_, port, err := net.SplitHostPort(listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			got, _, err := LookUp(t.Context(), service.Target{Wire: service.HTTP1, Host: "localhost", Port: port})
			if err != nil || got != listener.Addr().String() {
				t.Errorf("localhost:%s is %s, %v, want %s", port, got, err, listener.Addr())
			}
		})
	}
}
