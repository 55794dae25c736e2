// Package channelz serves the counters of fastgrpc servers and clients through gRPC's
// channelz service, for tools such as grpcdebug. It reads snapshots on request and adds
// no cost to calls.
//
// Channels have sockets but no subchannels and no traces.
package channelz

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"google.golang.org/grpc"
	channelzgrpc "google.golang.org/grpc/channelz/grpc_channelz_v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"wirelab.dev/rpc/fastgrpc"
)

// Server is the source of a server's counters; *fastgrpc.Server implements it.
type Server interface {
	Conns() []fastgrpc.ConnInfo
	Counters() fastgrpc.Counters
}

// Client is the source of a client's counters; *fastgrpc.Client implements it.
type Client interface {
	Server
	Target() string
	State() connectivity.State
}

var (
	_ Server = (*fastgrpc.Server)(nil)
	_ Client = (*fastgrpc.Client)(nil)
)

// service serves fixed lists of servers and clients.
type service struct {
	channelzgrpc.UnimplementedChannelzServer
	servers []Server
	clients []Client
}

// Register registers the channelz service for servers and clients on r.
func Register(r grpc.ServiceRegistrar, servers []Server, clients []Client) {
	channelzgrpc.RegisterChannelzServer(r, &service{servers: servers, clients: clients})
}

// Servers have the identifiers 1, 2, …, clients firstClient, firstClient+1, …. A socket's
// identifier is its owner's times socketsEach plus its index.
const (
	firstClient = 1 << 20
	socketsEach = 1 << 32
)

func notFound(what string, id int64) error {
	return status.Errorf(codes.NotFound, "no %s with ID %d", what, id)
}

func (s *service) GetServers(_ context.Context, in *channelzgrpc.GetServersRequest) (*channelzgrpc.GetServersResponse, error) {
	out := &channelzgrpc.GetServersResponse{End: true}
	for i := max(1, in.GetStartServerId()); i <= int64(len(s.servers)); i++ {
		out.Server = append(out.Server, s.server(i))
	}
	return out, nil
}

func (s *service) GetServer(_ context.Context, in *channelzgrpc.GetServerRequest) (*channelzgrpc.GetServerResponse, error) {
	if server := s.server(in.GetServerId()); server != nil {
		return &channelzgrpc.GetServerResponse{Server: server}, nil
	}
	return nil, notFound("server", in.GetServerId())
}

// server returns nil for an unknown identifier.
func (s *service) server(id int64) *channelzgrpc.Server {
	if id < 1 || id > int64(len(s.servers)) {
		return nil
	}
	c := s.servers[id-1].Counters()
	return &channelzgrpc.Server{
		Ref: &channelzgrpc.ServerRef{ServerId: id},
		Data: &channelzgrpc.ServerData{
			CallsStarted: int64(c.CallsStarted), CallsSucceeded: int64(c.CallsSucceeded), CallsFailed: int64(c.CallsFailed),
		},
	}
}

func (s *service) GetServerSockets(_ context.Context, in *channelzgrpc.GetServerSocketsRequest) (*channelzgrpc.GetServerSocketsResponse, error) {
	id := in.GetServerId()
	if s.server(id) == nil {
		return nil, notFound("server", id)
	}
	known := slices.DeleteFunc(refs(id, s.conns(id)), func(ref *channelzgrpc.SocketRef) bool { return ref.SocketId < in.GetStartSocketId() })
	return &channelzgrpc.GetServerSocketsResponse{SocketRef: known, End: true}, nil
}

func (s *service) GetTopChannels(_ context.Context, in *channelzgrpc.GetTopChannelsRequest) (*channelzgrpc.GetTopChannelsResponse, error) {
	out := &channelzgrpc.GetTopChannelsResponse{End: true}
	for i := max(firstClient, in.GetStartChannelId()); i < firstClient+int64(len(s.clients)); i++ {
		out.Channel = append(out.Channel, s.channel(i))
	}
	return out, nil
}

func (s *service) GetChannel(_ context.Context, in *channelzgrpc.GetChannelRequest) (*channelzgrpc.GetChannelResponse, error) {
	if channel := s.channel(in.GetChannelId()); channel != nil {
		return &channelzgrpc.GetChannelResponse{Channel: channel}, nil
	}
	return nil, notFound("channel", in.GetChannelId())
}

// channel returns nil for an unknown identifier.
func (s *service) channel(id int64) *channelzgrpc.Channel {
	if id < firstClient || id >= firstClient+int64(len(s.clients)) {
		return nil
	}
	client := s.clients[id-firstClient]
	c := client.Counters()
	// The two enumerations have the same names; any other state is 0, unknown.
	state := channelzgrpc.ChannelConnectivityState_State(channelzgrpc.ChannelConnectivityState_State_value[client.State().String()])
	return &channelzgrpc.Channel{
		Ref: &channelzgrpc.ChannelRef{ChannelId: id, Name: client.Target()},
		Data: &channelzgrpc.ChannelData{
			Target: client.Target(), State: &channelzgrpc.ChannelConnectivityState{State: state},
			CallsStarted: int64(c.CallsStarted), CallsSucceeded: int64(c.CallsSucceeded), CallsFailed: int64(c.CallsFailed),
		},
		SocketRef: refs(id, s.conns(id)),
	}
}

func (s *service) GetSocket(_ context.Context, in *channelzgrpc.GetSocketRequest) (*channelzgrpc.GetSocketResponse, error) {
	owner, place := in.GetSocketId()/socketsEach, in.GetSocketId()%socketsEach
	conns := s.conns(owner)
	if place < 0 || place >= int64(len(conns)) {
		return nil, notFound("socket", in.GetSocketId())
	}
	c := conns[place]
	return &channelzgrpc.GetSocketResponse{Socket: &channelzgrpc.Socket{
		Ref: refs(owner, conns)[place],
		Data: &channelzgrpc.SocketData{
			StreamsStarted: int64(c.Counters.CallsStarted), StreamsSucceeded: int64(c.Counters.CallsSucceeded), StreamsFailed: int64(c.Counters.CallsFailed),
		},
		Local: address(c.Local), Remote: address(c.Remote),
	}}, nil
}

// conns returns the connections of a server or client, none for an unknown identifier.
// Their order is stable while none is opened or closed.
func (s *service) conns(owner int64) []fastgrpc.ConnInfo {
	var conns []fastgrpc.ConnInfo
	switch {
	case owner >= 1 && owner <= int64(len(s.servers)):
		conns = s.servers[owner-1].Conns()
	case owner >= firstClient && owner < firstClient+int64(len(s.clients)):
		conns = s.clients[owner-firstClient].Conns()
	}
	slices.SortFunc(conns, func(a, b fastgrpc.ConnInfo) int { return strings.Compare(name(a), name(b)) })
	return conns
}

func name(c fastgrpc.ConnInfo) string { return fmt.Sprintf("%v -> %v", c.Local, c.Remote) }

func refs(owner int64, conns []fastgrpc.ConnInfo) []*channelzgrpc.SocketRef {
	out := make([]*channelzgrpc.SocketRef, len(conns))
	for i, c := range conns {
		out[i] = &channelzgrpc.SocketRef{SocketId: owner*socketsEach + int64(i), Name: name(c)}
	}
	return out
}

func address(a net.Addr) *channelzgrpc.Address {
	if a == nil {
		return nil
	}
	if ap, err := netip.ParseAddrPort(a.String()); err == nil {
		tcp := &channelzgrpc.Address_TcpIpAddress{IpAddress: ap.Addr().AsSlice(), Port: int32(ap.Port())}
		return &channelzgrpc.Address{Address: &channelzgrpc.Address_TcpipAddress{TcpipAddress: tcp}}
	}
	if a.Network() == "unix" {
		return &channelzgrpc.Address{Address: &channelzgrpc.Address_UdsAddress_{UdsAddress: &channelzgrpc.Address_UdsAddress{Filename: a.String()}}}
	}
	return &channelzgrpc.Address{Address: &channelzgrpc.Address_OtherAddress_{OtherAddress: &channelzgrpc.Address_OtherAddress{Name: a.String()}}}
}
