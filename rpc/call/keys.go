package rpccall

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
)

// Keys holds the keys of grpc-go's context values. Their types are unexported. To find them,
// each is looked up once in a context whose Value records the key.
var Keys = findKeys()

// ContextKeys holds the keys of a call's incoming metadata, peer and ServerTransportStream.
type ContextKeys struct{ Incoming, Peer, TransportStream any }

func findKeys() (keys ContextKeys) {
	keys.Incoming = KeyOf(func(ctx context.Context) { metadata.FromIncomingContext(ctx) })
	keys.Peer = KeyOf(func(ctx context.Context) { peer.FromContext(ctx) })
	keys.TransportStream = KeyOf(func(ctx context.Context) { grpc.ServerTransportStreamFromContext(ctx) })
	return keys
}

// KeyOf returns the key that a function looks up in a context.
func KeyOf(lookup func(context.Context)) (key any) {
	lookup(keyRecorder{context.Background(), &key})
	return key
}

type keyRecorder struct {
	context.Context
	key *any
}

func (s keyRecorder) Value(key any) any {
	*s.key = key
	return nil
}
