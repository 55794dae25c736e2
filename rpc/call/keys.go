package rpccall

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
)

// Keys are the keys of grpc-go's context values. Their types are unexported, but Value sees
// each key that is looked up, so they are all looked up once.
var Keys = findKeys()

// ContextKeys are those of a call's incoming metadata, its peer and its ServerTransportStream.
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
