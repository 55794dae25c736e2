package rpccall

import (
	"reflect"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
)

// CallOptions holds the grpc-go call options that every library understands.
type CallOptions struct {
	WaitForReady        bool
	WaitIsSet           bool // an option says WaitForReady
	MaxReceive, MaxSend int  // bytes of a message
	Header, Trailer     *metadata.MD
	Peer                *peer.Peer
	OnFinish            []func(error)
}

// Apply applies an option. It returns false for an option of grpc-go that it does not know.
func (c *CallOptions) Apply(option grpc.CallOption) bool {
	switch o := option.(type) {
	case grpc.StaticMethodCallOption, grpc.EmptyCallOption:
	case grpc.HeaderCallOption:
		c.Header = o.HeaderAddr
	case grpc.TrailerCallOption:
		c.Trailer = o.TrailerAddr
	case grpc.PeerCallOption:
		c.Peer = o.PeerAddr
	case grpc.FailFastCallOption:
		c.WaitForReady, c.WaitIsSet = !o.FailFast, true
	case grpc.OnFinishCallOption:
		c.OnFinish = append(c.OnFinish, o.OnFinish)
	case grpc.MaxRecvMsgSizeCallOption:
		c.MaxReceive = o.MaxRecvMsgSize
	case grpc.MaxSendMsgSizeCallOption:
		c.MaxSend = o.MaxSendMsgSize
	default:
		// The program's own options are for its interceptors; those that a later grpc-go
		// adds are not.
		return reflect.TypeOf(option).PkgPath() != reflect.TypeFor[grpc.EmptyCallOption]().PkgPath()
	}
	return true
}

// Finished calls the functions of OnFinish.
func (c *CallOptions) Finished(err error) {
	for _, f := range c.OnFinish {
		f(err)
	}
}
