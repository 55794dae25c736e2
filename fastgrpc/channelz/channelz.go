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

	"wirelab.dev/fastgrpc"
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

// Service is the channelz service for fixed lists of servers and clients.
type Service struct {
	channelzgrpc.UnimplementedChannelzServer
	servers []Server
	clients []Client
}

// Register registers a Service for servers and clients on r.
func Register(r grpc.ServiceRegistrar, servers []Server, clients []Client) {
	channelzgrpc.RegisterChannelzServer(r, &Service{servers: servers, clients: clients})
}

// Servers have the identifiers 1, 2, …, clients firstClient, firstClient+1, …. A socket's
// identifier is its owner's times socketsEach plus its index.
const (
	firstClient = 1 << 20
	socketsEach = 1 << 32
)

// GetServers lists the servers.
func (s *Service) GetServers(_ context.Context, in *channelzgrpc.GetServersRequest) (*channelzgrpc.GetServersResponse, error) {
	out := &channelzgrpc.GetServersResponse{End: true}
	for i := range s.servers {
		if id := int64(i + 1); id >= in.GetStartServerId() {
			out.Server = append(out.Server, s.server(id))
		}
	}
	return out, nil
}

// GetServer describes one server.
func (s *Service) GetServer(_ context.Context, in *channelzgrpc.GetServerRequest) (*channelzgrpc.GetServerResponse, error) {
	if id := in.GetServerId(); id >= 1 && id <= int64(len(s.servers)) {
		return &channelzgrpc.GetServerResponse{Server: s.server(id)}, nil
	}
	return nil, status.Errorf(codes.NotFound, "no server with ID %d", in.GetServerId())
}

func (s *Service) server(id int64) *channelzgrpc.Server {
	c := s.servers[id-1].Counters()
	return &channelzgrpc.Server{
		Ref: &channelzgrpc.ServerRef{ServerId: id},
		Data: &channelzgrpc.ServerData{
			CallsStarted: int64(c.CallsStarted), CallsSucceeded: int64(c.CallsSucceeded), CallsFailed: int64(c.CallsFailed),
		},
	}
}

// GetServerSockets lists a server's connections.
func (s *Service) GetServerSockets(_ context.Context, in *channelzgrpc.GetServerSocketsRequest) (*channelzgrpc.GetServerSocketsResponse, error) {
	id := in.GetServerId()
	if id < 1 || id > int64(len(s.servers)) {
		return nil, status.Errorf(codes.NotFound, "no server with ID %d", id)
	}
	out := &channelzgrpc.GetServerSocketsResponse{End: true}
	for _, ref := range refs(id, sorted(s.servers[id-1])) {
		if ref.SocketId >= in.GetStartSocketId() {
			out.SocketRef = append(out.SocketRef, ref)
		}
	}
	return out, nil
}

// GetTopChannels lists the clients.
func (s *Service) GetTopChannels(_ context.Context, in *channelzgrpc.GetTopChannelsRequest) (*channelzgrpc.GetTopChannelsResponse, error) {
	out := &channelzgrpc.GetTopChannelsResponse{End: true}
	for i := range s.clients {
		if id := int64(firstClient + i); id >= in.GetStartChannelId() {
			out.Channel = append(out.Channel, s.channel(id))
		}
	}
	return out, nil
}

// GetChannel describes one client.
func (s *Service) GetChannel(_ context.Context, in *channelzgrpc.GetChannelRequest) (*channelzgrpc.GetChannelResponse, error) {
	if id := in.GetChannelId(); id >= firstClient && id < firstClient+int64(len(s.clients)) {
		return &channelzgrpc.GetChannelResponse{Channel: s.channel(id)}, nil
	}
	return nil, status.Errorf(codes.NotFound, "no channel with ID %d", in.GetChannelId())
}

func (s *Service) channel(id int64) *channelzgrpc.Channel {
	client := s.clients[id-firstClient]
	c := client.Counters()
	return &channelzgrpc.Channel{
		Ref: &channelzgrpc.ChannelRef{ChannelId: id, Name: client.Target()},
		Data: &channelzgrpc.ChannelData{
			Target: client.Target(), State: stateOf(client.State()),
			CallsStarted: int64(c.CallsStarted), CallsSucceeded: int64(c.CallsSucceeded), CallsFailed: int64(c.CallsFailed),
		},
		SocketRef: refs(id, sorted(client)),
	}
}

func stateOf(s connectivity.State) *channelzgrpc.ChannelConnectivityState {
	state := channelzgrpc.ChannelConnectivityState_UNKNOWN
	switch s {
	case connectivity.Idle:
		state = channelzgrpc.ChannelConnectivityState_IDLE
	case connectivity.Connecting:
		state = channelzgrpc.ChannelConnectivityState_CONNECTING
	case connectivity.Ready:
		state = channelzgrpc.ChannelConnectivityState_READY
	case connectivity.TransientFailure:
		state = channelzgrpc.ChannelConnectivityState_TRANSIENT_FAILURE
	case connectivity.Shutdown:
		state = channelzgrpc.ChannelConnectivityState_SHUTDOWN
	}
	return &channelzgrpc.ChannelConnectivityState{State: state}
}

// GetSocket describes one connection.
func (s *Service) GetSocket(_ context.Context, in *channelzgrpc.GetSocketRequest) (*channelzgrpc.GetSocketResponse, error) {
	owner, place := in.GetSocketId()/socketsEach, in.GetSocketId()%socketsEach
	var conns []fastgrpc.ConnInfo
	switch {
	case owner >= 1 && owner <= int64(len(s.servers)):
		conns = sorted(s.servers[owner-1])
	case owner >= firstClient && owner < firstClient+int64(len(s.clients)):
		conns = sorted(s.clients[owner-firstClient])
	}
	if place < 0 || place >= int64(len(conns)) {
		return nil, status.Errorf(codes.NotFound, "no socket with ID %d", in.GetSocketId())
	}
	c := conns[place]
	return &channelzgrpc.GetSocketResponse{Socket: &channelzgrpc.Socket{
		Ref: refs(owner, conns)[place],
		Data: &channelzgrpc.SocketData{
			StreamsStarted:   int64(c.Counters.CallsStarted),
			StreamsSucceeded: int64(c.Counters.CallsSucceeded),
			StreamsFailed:    int64(c.Counters.CallsFailed),
		},
		Local: address(c.Local), Remote: address(c.Remote),
	}}, nil
}

// sorted returns the connections in an order that is stable while none is opened or
// closed.
func sorted(s Server) []fastgrpc.ConnInfo {
	conns := s.Conns()
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
		return &channelzgrpc.Address{Address: &channelzgrpc.Address_TcpipAddress{TcpipAddress: &channelzgrpc.Address_TcpIpAddress{
			IpAddress: ap.Addr().AsSlice(), Port: int32(ap.Port()),
		}}}
	}
	if a.Network() == "unix" {
		return &channelzgrpc.Address{Address: &channelzgrpc.Address_UdsAddress_{UdsAddress: &channelzgrpc.Address_UdsAddress{Filename: a.String()}}}
	}
	return &channelzgrpc.Address{Address: &channelzgrpc.Address_OtherAddress_{OtherAddress: &channelzgrpc.Address_OtherAddress{Name: a.String()}}}
}
