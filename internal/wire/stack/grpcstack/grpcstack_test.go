package grpcstack

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/secure"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/stack/stacktest"
	"wirelab.dev/internal/wire/workload/echo/echopb"
)

const greeting = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" // RFC 9113, section 3.4

// frames are wrong on HTTP/2, and followed by nothing.
var frames = map[string][]byte{
	"half a greeting":        []byte(greeting[:18]),
	"a frame of 16 MiB":      []byte(greeting + "\xff\xff\xff\x00\x00\x00\x00\x00\x01"),
	"half a SETTINGS frame":  []byte(greeting + "\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x03"),
	"DATA on no stream":      []byte(greeting + "\x00\x00\x00\x04\x00\x00\x00\x00\x00" + "\x00\x00\x01\x00\x00\x00\x00\x00\x00x"),
	"HEADERS that are noise": []byte(greeting + "\x00\x00\x00\x04\x00\x00\x00\x00\x00" + "\x00\x00\x04\x01\x04\x00\x00\x00\x01\xff\xff\xff\xff"),
}

func TestSuite(t *testing.T) {
	for _, c := range []struct {
		variant   string
		lifecycle conn.Lifecycle
	}{
		{"grpc", conn.Kept},
		{"grpc:conns=3", conn.Kept},
		{"grpc:pool=auto", conn.Kept},
		{"grpc:pool=auto,tls=on", conn.Fresh},
		{"grpc", conn.Fresh},
		{"grpc:tls=on", conn.Kept},
		{"grpc:tls=on,handshakes=2", conn.Fresh},
		{"grpc:tls=on", conn.Resumed},
	} {
		t.Run(fmt.Sprintf("%s/%d", c.variant, c.lifecycle), func(t *testing.T) {
			stacktest.Run(t, stacktest.Subject{Stack: Stack, Variant: parse(t, c.variant), Lifecycle: c.lifecycle, Garbage: frames})
		})
	}
}

func TestSecurity(t *testing.T) {
	for _, variant := range []string{"grpc:tls=on", "grpc:tls=on,cert=rsa,group=x25519,handshakes=2", "grpc:pool=auto,tls=on"} {
		t.Run(variant, func(t *testing.T) {
			stacktest.RunSecurity(t, stacktest.Subject{Stack: Stack, Variant: parse(t, variant)})
		})
	}
}

func TestLeaks(t *testing.T) {
	for _, variant := range []string{"grpc", "grpc:tls=on", "grpc:tls=on,handshakes=2", "grpc:pool=auto"} {
		t.Run(variant, func(t *testing.T) {
			stacktest.RunLeaks(t, stacktest.Subject{Stack: Stack, Variant: parse(t, variant)})
		})
	}
}

func parse(t testing.TB, text string) scenario.Variant {
	t.Helper()
	v, err := scenario.ParseVariant(text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// whoAsks notes the address that each call came from.
type whoAsks struct {
	echopb.UnimplementedEchoServiceServer
	mu    sync.Mutex
	calls map[string]int
}

func (w *whoAsks) Echo(ctx context.Context, in *echopb.Payload) (*echopb.Payload, error) {
	from, _ := peer.FromContext(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls[from.Addr.String()]++
	return in, nil
}

// serve starts a server of echo and returns what its clients dial.
func serve(t testing.TB, variant string, service echopb.EchoServiceServer) stack.Target {
	t.Helper()
	server, err := Stack.NewServer(parse(t, variant))
	if err != nil {
		t.Fatal(err)
	}
	echopb.RegisterEchoServiceServer(server, service)
	address, err := server.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve() }() // ends with Close; the suite looks at what it returns
	t.Cleanup(func() { _ = server.Close() })
	return stack.Target{Address: address.String(), Trust: secure.Trust{RootPEM: server.(stack.TLSServer).RootPEM()}}
}

func dialTest(t testing.TB, variant string, target stack.Target) stack.Client {
	t.Helper()
	client, err := Stack.NewClient(t.Context(), parse(t, variant), target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// TestConnectionsTakeTurns looks from the server's side: what the client says
// of itself is the suite's affair.
func TestConnectionsTakeTurns(t *testing.T) {
	for _, c := range []struct {
		variant string
		asked   int
		want    int
	}{
		{"grpc", 0, 1},
		{"grpc", 3, 3},
		{"grpc:conns=4", 0, 4},
		{"grpc:conns=2", 5, 2}, // the option wins
	} {
		service := &whoAsks{calls: map[string]int{}}
		dialer := &conn.Dialer{}
		target := serve(t, "grpc", service)
		target.Connections, target.Dialer = c.asked, dialer
		client := dialTest(t, c.variant, target)
		if counts := dialer.Counts(); counts.Open != int64(c.want) {
			t.Errorf("%s, asked for %d: %+v before the first call, want %d open", c.variant, c.asked, counts, c.want)
		}
		stub := echopb.NewEchoServiceClient(client)
		for range 5 * c.want {
			if _, err := stub.Echo(t.Context(), &echopb.Payload{}); err != nil {
				t.Fatal(err)
			}
		}
		for from, calls := range service.calls {
			if calls != 5 {
				t.Errorf("%s: %d of %d calls came from %s", c.variant, calls, 5*c.want, from)
			}
		}
		if len(service.calls) != c.want {
			t.Errorf("%s, asked for %d: calls came over %d connections, want %d", c.variant, c.asked, len(service.calls), c.want)
		}
	}
}

func TestWrongOptions(t *testing.T) {
	for _, text := range []string{"grpc:conns=0", "grpc:conns=many"} {
		if _, err := Stack.NewServer(parse(t, text)); err == nil || !strings.Contains(err.Error(), "conns") {
			t.Errorf("NewServer of %s: %v", text, err)
		}
		if _, err := Stack.NewClient(t.Context(), parse(t, text), stack.Target{}); err == nil || !strings.Contains(err.Error(), "conns") {
			t.Errorf("NewClient of %s: %v", text, err)
		}
	}
}

// TestForeignClientsFindTheirWay asks what grpcurl asks before its first call.
func TestForeignClientsFindTheirWay(t *testing.T) {
	for _, variant := range []string{"grpc", "grpc:tls=on"} {
		t.Run(variant, func(t *testing.T) {
			target := serve(t, variant, &whoAsks{calls: map[string]int{}})
			over := insecure.NewCredentials()
			if target.Trust.RootPEM != nil {
				config, err := secure.Choice{}.ClientConfig(target.Address, target.Trust)
				if err != nil {
					t.Fatal(err)
				}
				over = credentials.NewTLS(config)
			}
			client, err := grpc.NewClient(target.Address, grpc.WithTransportCredentials(over))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = client.Close() })
			expectDescribed(t, client)
		})
	}
}

func expectDescribed(t *testing.T, client grpc.ClientConnInterface) {
	t.Helper()
	const service = "wirelab.echo.v1.EchoService"
	for _, name := range []string{"", service} {
		health, err := grpc_health_v1.NewHealthClient(client).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: name})
		if err != nil || health.Status != grpc_health_v1.HealthCheckResponse_SERVING {
			t.Errorf("the health of %q is %v, %v", name, health.GetStatus(), err)
		}
	}

	stream, err := grpc_reflection_v1.NewServerReflectionClient(client).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&grpc_reflection_v1.ServerReflectionRequest{
		MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_ListServices{},
	}); err != nil {
		t.Fatal(err)
	}
	answer, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	services := answer.GetListServicesResponse().GetService()
	for _, want := range []string{service, "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection"} { // ghz asks the last
		if !slices.ContainsFunc(services, func(s *grpc_reflection_v1.ServiceResponse) bool { return s.Name == want }) {
			t.Errorf("reflection lists %v, and not %s", services, want)
		}
	}
	if err := stream.Send(&grpc_reflection_v1.ServerReflectionRequest{
		MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: service},
	}); err != nil {
		t.Fatal(err)
	}
	if answer, err = stream.Recv(); err != nil || len(answer.GetFileDescriptorResponse().GetFileDescriptorProto()) == 0 {
		t.Errorf("reflection describes %s as %v, %v", service, answer, err)
	}
}
