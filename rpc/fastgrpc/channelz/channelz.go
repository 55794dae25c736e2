// Package channelz implements gRPC's channelz service for fastgrpc servers and clients, so that
// tools such as grpcdebug can show their counters. It reads the counters only when a tool asks, so
// calls cost nothing extra.
//
// It reports channels with their sockets, but no subchannels and no traces.
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

// Server provides a server's connections and counters. *fastgrpc.Server implements it.
type Server interface {
	Conns() []fastgrpc.ConnInfo
	Counters() fastgrpc.Counters
}

// Client provides a client's connections, counters and state. *fastgrpc.Client implements it.
type Client interface {
	Server
	Target() string
	GetState() connectivity.State
}

var (
	_ Server = (*fastgrpc.Server)(nil)
	_ Client = (*fastgrpc.Client)(nil)
)

// service implements the channelz service for a fixed list of servers and of clients.
type service struct {
	channelzgrpc.UnimplementedChannelzServer
	servers []Server
	clients []Client
}

// Register registers the channelz service for servers and clients on r.
func Register(r grpc.ServiceRegistrar, servers []Server, clients []Client) {
	channelzgrpc.RegisterChannelzServer(r, &service{servers: servers, clients: clients})
}

// Servers are numbered from 1, and clients from firstClientID. A socket's identifier is the number
// of its server or client, times maxSocketsPerOwner, plus the socket's index.
const (
	firstClientID      = 1 << 20
	maxSocketsPerOwner = 1 << 32
)

func notFoundError(what string, id int64) error {
	return status.Errorf(codes.NotFound, "there is no %s with the ID %d", what, id)
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
	return nil, notFoundError("server", in.GetServerId())
}

// server returns a server's counters, or nil if no server has this identifier.
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
		return nil, notFoundError("server", id)
	}
	known := slices.DeleteFunc(socketRefs(id, s.conns(id)), func(ref *channelzgrpc.SocketRef) bool { return ref.SocketId < in.GetStartSocketId() })
	return &channelzgrpc.GetServerSocketsResponse{SocketRef: known, End: true}, nil
}

func (s *service) GetTopChannels(_ context.Context, in *channelzgrpc.GetTopChannelsRequest) (*channelzgrpc.GetTopChannelsResponse, error) {
	out := &channelzgrpc.GetTopChannelsResponse{End: true}
	for i := max(firstClientID, in.GetStartChannelId()); i < firstClientID+int64(len(s.clients)); i++ {
		out.Channel = append(out.Channel, s.channel(i))
	}
	return out, nil
}

func (s *service) GetChannel(_ context.Context, in *channelzgrpc.GetChannelRequest) (*channelzgrpc.GetChannelResponse, error) {
	if channel := s.channel(in.GetChannelId()); channel != nil {
		return &channelzgrpc.GetChannelResponse{Channel: channel}, nil
	}
	return nil, notFoundError("channel", in.GetChannelId())
}

// channel returns a client's counters, or nil if no client has this identifier.
func (s *service) channel(id int64) *channelzgrpc.Channel {
	if id < firstClientID || id >= firstClientID+int64(len(s.clients)) {
		return nil
	}
	client := s.clients[id-firstClientID]
	c := client.Counters()
	// Both enumerations use the same names. A name that channelz lacks becomes 0, which is UNKNOWN.
	state := channelzgrpc.ChannelConnectivityState_State(channelzgrpc.ChannelConnectivityState_State_value[client.GetState().String()])
	return &channelzgrpc.Channel{
		Ref: &channelzgrpc.ChannelRef{ChannelId: id, Name: client.Target()},
		Data: &channelzgrpc.ChannelData{
			Target: client.Target(), State: &channelzgrpc.ChannelConnectivityState{State: state},
			CallsStarted: int64(c.CallsStarted), CallsSucceeded: int64(c.CallsSucceeded), CallsFailed: int64(c.CallsFailed),
		},
		SocketRef: socketRefs(id, s.conns(id)),
	}
}

func (s *service) GetSocket(_ context.Context, in *channelzgrpc.GetSocketRequest) (*channelzgrpc.GetSocketResponse, error) {
	owner, place := in.GetSocketId()/maxSocketsPerOwner, in.GetSocketId()%maxSocketsPerOwner
	conns := s.conns(owner)
	if place < 0 || place >= int64(len(conns)) {
		return nil, notFoundError("socket", in.GetSocketId())
	}
	c := conns[place]
	return &channelzgrpc.GetSocketResponse{Socket: &channelzgrpc.Socket{
		Ref: socketRefs(owner, conns)[place],
		Data: &channelzgrpc.SocketData{
			StreamsStarted: int64(c.Counters.CallsStarted), StreamsSucceeded: int64(c.Counters.CallsSucceeded), StreamsFailed: int64(c.Counters.CallsFailed),
		},
		Local: channelzAddress(c.Local), Remote: channelzAddress(c.Remote),
	}}, nil
}

// conns returns the connections of a server or client, or nil if none has this identifier. The
// order changes only when a connection is opened or closed.
func (s *service) conns(owner int64) []fastgrpc.ConnInfo {
	var conns []fastgrpc.ConnInfo
	switch {
	case owner >= 1 && owner <= int64(len(s.servers)):
		conns = s.servers[owner-1].Conns()
	case owner >= firstClientID && owner < firstClientID+int64(len(s.clients)):
		conns = s.clients[owner-firstClientID].Conns()
	}
	slices.SortFunc(conns, func(a, b fastgrpc.ConnInfo) int { return strings.Compare(connName(a), connName(b)) })
	return conns
}

func connName(c fastgrpc.ConnInfo) string { return fmt.Sprintf("%v -> %v", c.Local, c.Remote) }

func socketRefs(owner int64, conns []fastgrpc.ConnInfo) []*channelzgrpc.SocketRef {
	out := make([]*channelzgrpc.SocketRef, len(conns))
	for i, c := range conns {
		out[i] = &channelzgrpc.SocketRef{SocketId: owner*maxSocketsPerOwner + int64(i), Name: connName(c)}
	}
	return out
}

func channelzAddress(a net.Addr) *channelzgrpc.Address {
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
