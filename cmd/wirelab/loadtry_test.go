package main

import (
	"net"
	"testing"

	"wirelab.dev/internal/service"
)

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
			got, err := lookUp(t.Context(), service.Target{Wire: service.HTTP1, Host: "localhost", Port: port})
			if err != nil || got != listener.Addr().String() {
				t.Errorf("localhost:%s is %s, %v, want %s", port, got, err, listener.Addr())
			}
		})
	}
}
