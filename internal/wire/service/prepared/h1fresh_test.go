package prepared

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/service"
)

// TestOneConnectionPerCall wants each call to open a connection, with the handshake of its
// lifecycle, although the machines behind the address agree on different versions of TLS.
func TestOneConnectionPerCall(t *testing.T) {
	const calls = 20
	for _, test := range []struct {
		name      string
		lifecycle conn.Lifecycle
		versions  []uint16 // of the server's machines in turn; none means no TLS
	}{
		{"cleartext", conn.Fresh, nil},
		{"TLS 1.2", conn.Fresh, []uint16{tls.VersionTLS12}},
		{"TLS 1.3", conn.Fresh, []uint16{tls.VersionTLS13}},
		{"both versions", conn.Fresh, []uint16{tls.VersionTLS13, tls.VersionTLS13, tls.VersionTLS12}},
		{"resumed 1.2", conn.Resumed, []uint16{tls.VersionTLS12}},
		{"resumed 1.3", conn.Resumed, []uint16{tls.VersionTLS13}},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := httptest.NewUnstartedServer(http.HandlerFunc(echo))
			defer server.Close()
			plan := planFor(server, service.HTTP1, wants[0].request)
			if test.versions == nil {
				server.Start()
			} else {
				var hellos atomic.Int64
				server.TLS, plan.TLS = secured(t, "http/1.1")
				server.TLS.MinVersion, server.TLS.MaxVersion = tls.VersionTLS12, slices.Max(test.versions)
				whole := server.TLS.Clone()
				server.TLS.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
					if len(test.versions) == 1 {
						return nil, nil
					}
					machine := whole.Clone()
					machine.MinVersion = test.versions[int(hellos.Add(1)-1)%len(test.versions)]
					machine.MaxVersion = machine.MinVersion
					return machine, nil
				}
				server.StartTLS()
			}
			plan.Lifecycle, plan.Callers = test.lifecycle, 2
			client, counts := open(t, plan)
			var all sync.WaitGroup
			for range 2 {
				all.Go(func() {
					var answer service.Answer
					for range calls / 2 {
						if err := client.Call(t.Context(), &plan.Requests[0], &answer); err != nil || answer.Bytes != wants[0].bytes {
							t.Errorf("%v, %d bytes", err, answer.Bytes)
						}
					}
				})
			}
			all.Wait()
			had := counts.Counts()
			first := int64(0) // the connection that fetches a session
			if test.lifecycle == conn.Resumed {
				first = 1
			}
			if opened := had.Opened - had.HandshakeFail; opened != calls+first || had.Open != 0 {
				t.Errorf("%d calls opened %d connections, and %d stayed open", calls, opened, had.Open)
			}
			if test.lifecycle == conn.Resumed && had.Resumed != calls {
				t.Errorf("%d of %d connections resumed a session", had.Resumed, calls)
			}
		})
	}
}
