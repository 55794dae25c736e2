package httpwire

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
)

// newTransport returns an http.Transport that speaks only the plan's version and
// opens connections through the plan's dialer.
func (p ClientPlan) newTransport() *http.Transport {
	made := &http.Transport{
		Protocols:          p.Version.protocols(p.TLS != nil),
		DialContext:        p.Dialer.DialContext,
		DialTLSContext:     p.dialTLS,
		DisableCompression: true,
	}
	if p.Version == HTTP1 && p.Lifecycle == Kept {
		made.MaxConnsPerHost = max(p.Connections, 1)
		made.MaxIdleConnsPerHost = made.MaxConnsPerHost
	}
	return made
}

// protocols returns net/http's setting for this version alone.
func (v Version) protocols(secure bool) *http.Protocols {
	protocols := new(http.Protocols)
	switch {
	case v == HTTP1:
		protocols.SetHTTP1(true)
	case secure:
		protocols.SetHTTP2(true)
	default:
		protocols.SetUnencryptedHTTP2(true)
	}
	return protocols
}

func (p ClientPlan) dialTLS(ctx context.Context, _, address string) (net.Conn, error) {
	raw, err := p.Dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	conn, err := p.Dialer.ShakeHands(ctx, raw, p.TLS)
	if err != nil {
		return nil, err
	}
	// A server without ALPN chooses no protocol, and speaks HTTP/1.1.
	if got := conn.ConnectionState().NegotiatedProtocol; p.Version == HTTP2 && !slices.Contains(p.Version.Protocols(), got) {
		_ = conn.Close()
		return nil, fmt.Errorf("the server at %s does not speak HTTP/2: it chose the protocol %q", address, got)
	}
	return conn, nil
}

// dial opens a connection, which the caller must close. It ends when ctx or life
// ends.
func (p ClientPlan) dial(ctx, life context.Context, transport *http.Transport) (*http.ClientConn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(life, cancel)()
	conn, err := transport.NewClientConn(ctx, p.Scheme(), p.Address)
	if err != nil && life.Err() != nil {
		return nil, errClosed
	}
	return conn, err
}
