package fastgrpc

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/local"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// token is per-call credentials that look at the connection, as package oauth's do.
type token struct{ secret bool }

func (k token) GetRequestMetadata(ctx context.Context, uri ...string) (map[string]string, error) {
	info, ok := credentials.RequestInfoFromContext(ctx)
	if !ok || info.Method != "/grpc.testing.TestService/UnaryCall" {
		return nil, errors.New("no request info")
	}
	if k.secret {
		if err := credentials.CheckSecurityLevel(info.AuthInfo, credentials.PrivacyAndIntegrity); err != nil {
			return nil, err
		}
	}
	return map[string]string{"echo": "token for " + uri[0]}, nil
}

func (k token) RequireTransportSecurity() bool { return k.secret }

// TestCallCredentials checks that call credentials see the connection's security, and
// are not sent on a connection that is less secure than they require.
func TestCallCredentials(t *testing.T) {
	serverCreds, clientCreds := tlsForTests(t)
	_, overTLS := startFast(t, Creds(serverCreds))
	_, overTCP := startFast(t, Creds(local.NewCredentials()))
	path := filepath.Join(t.TempDir(), "s")
	lis, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := NewServer(Creds(local.NewCredentials()))
	testgrpc.RegisterTestServiceServer(s, echo{})
	go func() { _ = s.Serve(lis) }()
	t.Cleanup(s.Stop)
	for _, c := range []struct {
		name, target string
		creds        credentials.TransportCredentials
		token        token
		want         codes.Code
	}{
		{"TLS", overTLS, clientCreds, token{secret: true}, codes.OK},
		{"own host by unix socket", "unix:" + path, local.NewCredentials(), token{secret: true}, codes.OK},
		{"own host by TCP", overTCP, local.NewCredentials(), token{secret: true}, codes.Unavailable},
		{"own host by TCP, no secret", overTCP, local.NewCredentials(), token{}, codes.OK},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := testgrpc.NewTestServiceClient(dialFast(t, c.target, WithTransportCredentials(c.creds), WithPerRPCCredentials(c.token)))
			var header metadata.MD
			_, err := client.UnaryCall(testContext(t), request(nil), grpc.Header(&header))
			if status.Code(err) != c.want {
				t.Errorf("got %v, want %v", err, c.want)
			}
			if err == nil && len(header["echo"]) != 1 {
				t.Errorf("the server got %v", header["echo"])
			}
		})
	}
}
