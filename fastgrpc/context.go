package fastgrpc

import (
	"context"
	"reflect"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"wirelab.dev/internal/rpccall"
)

var _ rpccall.Call = (*serverStream)(nil)

// ContextValue returns the values that grpc-go's packages look up.
func (s *serverStream) ContextValue(key any) any {
	switch key {
	case contextKeys.incoming:
		return s.incoming()
	case contextKeys.peer:
		return s.conn.peer
	case contextKeys.transportStream:
		return s
	}
	if isConnectionKey(key) {
		return s.conn.NetConn()
	}
	return s.conn.ctx.Value(key)
}

// isConnectionKey tells the key by which grpc-go's authz and RBAC look up the connection,
// for its address. No exported function looks it up, so it is known by its name.
func isConnectionKey(key any) bool {
	t := reflect.TypeOf(key)
	return t != nil && t.Kind() == reflect.Struct && t.Name() == "connectionKey" &&
		t.PkgPath() == "google.golang.org/grpc/internal/transport"
}

// contextKeys are the keys of grpc-go's context values. Their types are unexported, but
// Value sees each key that is looked up, so findContextKeys looks them all up once.
var contextKeys = findContextKeys()

type grpcContextKeys struct{ incoming, peer, transportStream any }

func findContextKeys() grpcContextKeys {
	var keys grpcContextKeys
	record := func(key *any, lookup func(context.Context)) {
		lookup(keyRecorder{context.Background(), key})
	}
	record(&keys.incoming, func(ctx context.Context) { metadata.FromIncomingContext(ctx) })
	record(&keys.peer, func(ctx context.Context) { peer.FromContext(ctx) })
	record(&keys.transportStream, func(ctx context.Context) { grpc.ServerTransportStreamFromContext(ctx) })
	return keys
}

type keyRecorder struct {
	context.Context
	key *any
}

func (s keyRecorder) Value(key any) any {
	*s.key = key
	return nil
}
