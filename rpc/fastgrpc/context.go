package fastgrpc

import (
	"reflect"

	rpccall "wirelab.dev/rpc/call"
)

var _ rpccall.Call = (*serverStream)(nil)

// ContextValue returns the values that grpc-go's packages look up.
func (s *serverStream) ContextValue(key any) any {
	switch key {
	case rpccall.Keys.Incoming:
		return s.incoming()
	case rpccall.Keys.Peer:
		return s.conn.peer
	case rpccall.Keys.TransportStream:
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
