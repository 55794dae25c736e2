package channelz_test

import (
	"context"
	"net"
	"testing"
	"time"

	channelzgrpc "google.golang.org/grpc/channelz/grpc_channelz_v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthgrpc "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"wirelab.dev/rpc/fastgrpc"
	"wirelab.dev/rpc/fastgrpc/channelz"
)

// TestServed reads a server's counters over gRPC from that server, and checks them
// against the calls that were made.
func TestServed(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c, err := fastgrpc.NewClient(lis.Addr().String(), fastgrpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	s := fastgrpc.NewServer()
	healthgrpc.RegisterHealthServer(s, health.NewServer())
	channelz.Register(s, []channelz.Server{s}, []channelz.Client{c})
	go func() { _ = s.Serve(lis) }()
	t.Cleanup(s.Stop)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for range 5 {
		if _, err := healthgrpc.NewHealthClient(c).Check(ctx, &healthgrpc.HealthCheckRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := healthgrpc.NewHealthClient(c).Check(ctx, &healthgrpc.HealthCheckRequest{Service: "none"}); status.Code(err) != codes.NotFound {
		t.Fatal(err)
	}
	z := channelzgrpc.NewChannelzClient(c)
	servers, err := z.GetServers(ctx, &channelzgrpc.GetServersRequest{})
	if err != nil || len(servers.GetServer()) != 1 {
		t.Fatalf("servers: %v, %v", servers, err)
	}
	server := servers.GetServer()[0]
	if d := server.GetData(); d.GetCallsStarted() != 7 || d.GetCallsSucceeded() != 5 || d.GetCallsFailed() != 1 {
		t.Errorf("server counts %v", d)
	}
	channels, err := z.GetTopChannels(ctx, &channelzgrpc.GetTopChannelsRequest{})
	if err != nil || len(channels.GetChannel()) != 1 {
		t.Fatalf("channels: %v, %v", channels, err)
	}
	channel := channels.GetChannel()[0]
	if d := channel.GetData(); d.GetCallsFailed() != 1 || d.GetState().GetState() != channelzgrpc.ChannelConnectivityState_READY {
		t.Errorf("channel counts %v", d)
	}
	sockets, err := z.GetServerSockets(ctx, &channelzgrpc.GetServerSocketsRequest{ServerId: server.GetRef().GetServerId()})
	if err != nil || len(sockets.GetSocketRef()) != 1 {
		t.Fatalf("sockets: %v, %v", sockets, err)
	}
	for _, ref := range []int64{sockets.GetSocketRef()[0].GetSocketId(), channel.GetSocketRef()[0].GetSocketId()} {
		socket, err := z.GetSocket(ctx, &channelzgrpc.GetSocketRequest{SocketId: ref})
		if err != nil || socket.GetSocket().GetData().GetStreamsStarted() < 7 {
			t.Errorf("socket: %v, %v", socket, err)
		}
	}
	if _, err := z.GetSocket(ctx, &channelzgrpc.GetSocketRequest{SocketId: 5}); status.Code(err) != codes.NotFound {
		t.Errorf("a socket that is not: %v", err)
	}
}
