package catalog

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/service"
)

// A call of gRPC is traced by its metadata.
func TestTracesInMetadata(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	received := make(chan []string, 1)
	server := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error {
		sent, _ := metadata.FromIncomingContext(s.Context())
		received <- sent.Get("traceparent")
		return nil
	}))
	go func() { _ = server.Serve(listener) }() // ends with Stop
	t.Cleanup(server.Stop)
	d := &service.Definition{
		Wire: service.GRPC, Network: "tcp", Address: listener.Addr().String(), Authority: "localhost", Timeout: time.Minute,
		Requests: []service.Request{{Path: "/a.B/C", Messages: [][]byte{nil}}}, Trace: &service.Trace{Share: 1},
	}
	client, err := Open(t.Context(), service.Plan{Definition: d, Connections: 1, Callers: 1, Varied: true, Dialer: &conn.Dialer{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	sources, err := NewSources(d, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	caller := d.NewCaller(client, sources.Of(0))
	_ = caller.Call(context.Background()) // the handler answers without a message: how it ends is not asked
	if got := <-received; len(got) != 1 || !strings.HasPrefix(got[0], "00-"+caller.Trace()+"-") || caller.Trace() == "" {
		t.Errorf("the server was sent %q, in trace %q", got, caller.Trace())
	}
}
