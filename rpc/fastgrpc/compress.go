package fastgrpc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"

	"wirelab.dev/rpc/call/wire"
)

// SetSendCompressor makes the server compress the call's messages with a registered
// compressor that the client accepts, or with "identity" not at all. By default it uses
// the one of the request. ctx is the handler's; it must be called before the header is
// sent. It stands in for grpc.SetSendCompressor, which knows only grpc-go's streams.
func SetSendCompressor(ctx context.Context, name string) error {
	s, _ := grpc.ServerTransportStreamFromContext(ctx).(*serverCall)
	if s == nil {
		return errNoStream
	}
	c := encoding.GetCompressor(name)
	switch {
	case name == encoding.Identity:
		c = nil
	case c == nil:
		return fmt.Errorf("fastgrpc: compressor %q is not registered", name)
	case !slices.Contains(s.accepted(), name):
		return fmt.Errorf("fastgrpc: the client does not accept compressor %q, but %q", name, s.accepted())
	}
	s.conn.Mu.Lock()
	defer s.conn.Mu.Unlock()
	if s.headerSent || !s.h2.Open() {
		return errors.New("fastgrpc: SetSendCompressor after the header was sent, or the call has ended")
	}
	s.sent = c
	return nil
}

// ClientSupportedCompressors returns the compressors that the client accepts. It stands
// in for grpc.ClientSupportedCompressors.
func ClientSupportedCompressors(ctx context.Context) ([]string, error) {
	s, _ := grpc.ServerTransportStreamFromContext(ctx).(*serverCall)
	if s == nil {
		return nil, errNoStream
	}
	return s.accepted(), nil
}

var errNoStream = errors.New("fastgrpc: the context is not that of a call on this server")

// accepted returns the names in the request's grpc-accept-encoding.
func (s *serverCall) accepted() []string {
	names := strings.Split(strings.Join(s.incoming()[wire.FieldAcceptEncoding], ","), ",")
	for i := range names {
		names[i] = strings.TrimSpace(names[i])
	}
	return names
}
