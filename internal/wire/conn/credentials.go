package conn

import (
	"context"
	"crypto/tls"
	"errors"
	"net"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// tlsInfo implements the methods that both ends' credentials share.
type tlsInfo struct{}

func (tlsInfo) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls"}
}

// OverrideServerName is deprecated by grpc-go, and part of its interface.
func (tlsInfo) OverrideServerName(string) error {
	return errors.New("the server's name is set in the TLS configuration and cannot be overridden")
}

func authInfo(conn *tls.Conn) credentials.TLSInfo {
	return credentials.TLSInfo{
		State:          conn.ConnectionState(),
		CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity},
	}
}

// Credentials returns the credentials of a gRPC library that gets its connections from
// Open. Over TLS they expect that the handshake is done: the Dialer counts and times
// handshakes in the same way for every stack.
func (o *Opener) Credentials() credentials.TransportCredentials {
	if o.TLS == nil {
		return insecure.NewCredentials()
	}
	return clientCredentials{}
}

// clientCredentials accept connections whose handshake is done.
type clientCredentials struct{ tlsInfo }

func (clientCredentials) ClientHandshake(_ context.Context, _ string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, ok := unwrap[*tls.Conn](raw)
	if !ok {
		return nil, nil, errors.New("the connection is not TLS")
	}
	return raw, authInfo(conn), nil
}

func (clientCredentials) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("these are a client's credentials")
}

func (c clientCredentials) Clone() credentials.TransportCredentials { return c }

// ServerCredentials returns credentials that do the handshake on the connection's own
// goroutine, unless Admit has done it. The end of ctx aborts handshakes in progress,
// because gRPC's libraries would wait for a silent peer.
func ServerCredentials(ctx context.Context, config *tls.Config) credentials.TransportCredentials {
	return serverCredentials{ctx: ctx, config: config}
}

type serverCredentials struct {
	tlsInfo
	ctx    context.Context
	config *tls.Config
}

func (s serverCredentials) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, ok := raw.(*tls.Conn)
	if !ok {
		conn = tls.Server(raw, s.config)
	}
	if err := ServerHandshake(s.ctx, conn); err != nil {
		return nil, nil, err
	}
	return conn, authInfo(conn), nil
}

func (serverCredentials) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("these are a server's credentials")
}

func (s serverCredentials) Clone() credentials.TransportCredentials { return s }
