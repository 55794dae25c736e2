package grpcstack

import (
	"context"
	"crypto/tls"
	"errors"
	"net"

	"google.golang.org/grpc/credentials"

	"wirelab.dev/internal/stack"
)

// secured is what both ends' credentials say of themselves.
type secured struct{}

func (secured) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls"}
}

// OverrideServerName is deprecated by grpc-go, and part of its interface.
func (secured) OverrideServerName(string) error {
	return errors.New("the server's name is part of its TLS configuration")
}

func infoOf(conn *tls.Conn) credentials.TLSInfo {
	return credentials.TLSInfo{
		State:          conn.ConnectionState(),
		CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity},
	}
}

// clientCredentials take connections on which the handshake is done: the Dialer
// does it, which counts and times it as for every stack.
type clientCredentials struct{ secured }

var _ credentials.TransportCredentials = clientCredentials{}

func (clientCredentials) ClientHandshake(_ context.Context, _ string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return raw, infoOf(raw.(*watched).Conn.(*tls.Conn)), nil
}

func (clientCredentials) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("these are a client's credentials")
}

func (c clientCredentials) Clone() credentials.TransportCredentials { return c }

// serverCredentials shake hands on the connection's own goroutine, unless the
// listener has done so.
type serverCredentials struct {
	secured
	ctx    context.Context // ends with the server: grpc-go would wait for a mute peer
	config *tls.Config
}

var _ credentials.TransportCredentials = serverCredentials{}

func (s serverCredentials) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, admitted := raw.(*tls.Conn)
	if !admitted {
		conn = tls.Server(raw, s.config)
	}
	if err := stack.Shake(s.ctx, conn); err != nil {
		return nil, nil, err
	}
	return conn, infoOf(conn), nil
}

func (serverCredentials) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("these are a server's credentials")
}

func (s serverCredentials) Clone() credentials.TransportCredentials { return s }
