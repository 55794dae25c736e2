package stack

import (
	"context"
	"crypto/tls"
	"errors"
	"net"

	"google.golang.org/grpc/credentials"
)

// ClientCredentials take connections on which the handshake is done: the Dialer
// does it, which counts and times it as for every stack.
func ClientCredentials() credentials.TransportCredentials { return clientCredentials{} }

// ServerCredentials shake hands on the connection's own goroutine, unless Admit
// has done so. ctx ends handshakes in progress: gRPC's libraries would wait for a
// mute peer.
func ServerCredentials(ctx context.Context, config *tls.Config) credentials.TransportCredentials {
	return serverCredentials{ctx: ctx, config: config}
}

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

type clientCredentials struct{ secured }

func (clientCredentials) ClientHandshake(_ context.Context, _ string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, ok := raw.(*tls.Conn)
	for inner := raw; !ok; conn, ok = inner.(*tls.Conn) {
		outer, wraps := inner.(interface{ NetConn() net.Conn })
		if !wraps {
			return nil, nil, errors.New("the connection is not TLS")
		}
		inner = outer.NetConn()
	}
	return raw, infoOf(conn), nil
}

func (clientCredentials) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("these are a client's credentials")
}

func (c clientCredentials) Clone() credentials.TransportCredentials { return c }

type serverCredentials struct {
	secured
	ctx    context.Context
	config *tls.Config
}

func (s serverCredentials) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, admitted := raw.(*tls.Conn)
	if !admitted {
		conn = tls.Server(raw, s.config)
	}
	if err := Shake(s.ctx, conn); err != nil {
		return nil, nil, err
	}
	return conn, infoOf(conn), nil
}

func (serverCredentials) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("these are a server's credentials")
}

func (s serverCredentials) Clone() credentials.TransportCredentials { return s }
