// Package workloadtest helps to test workloads. It connects handlers and callers over grpc-go in
// memory, without a stack of wirelab.
package workloadtest

import (
	"context"
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/workload"
)

// Settings parses the options after a workload's name, such as `op=get,chunks=3`.
func Settings(t testing.TB, text string) []scenario.Setting {
	t.Helper()
	if text == "" {
		return nil
	}
	parsed, err := scenario.ParseWorkload("test:" + text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed.Options
}

// Connect serves the workload in memory until the test ends, and returns a connection.
func Connect(t testing.TB, w workload.Workload, p workload.Parameters) grpc.ClientConnInterface {
	t.Helper()
	if err := w.Check(p); err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	w.Register(server, p)
	operations := 0
	for _, service := range server.GetServiceInfo() {
		operations += len(service.Methods)
	}
	if info := w.Info(); operations != info.Operations {
		t.Errorf("%s: %d operations are registered, %d announced", info.Name, operations, info.Operations)
	}
	listener := bufconn.Listen(1 << 20)
	go func() { _ = server.Serve(listener) }() // ends when Stop is called
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient("passthrough:memory",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// An AlteredConn is a connection that changes answers before the client gets the answers.
type AlteredConn struct {
	grpc.ClientConnInterface
	Answer func(reply any)
}

// Invoke implements grpc.ClientConnInterface.
func (s *AlteredConn) Invoke(ctx context.Context, method string, args, reply any, options ...grpc.CallOption) error {
	err := s.ClientConnInterface.Invoke(ctx, method, args, reply, options...)
	if err == nil && s.Answer != nil {
		s.Answer(reply)
	}
	return err
}

// NewStream implements grpc.ClientConnInterface.
func (s *AlteredConn) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, options ...grpc.CallOption) (grpc.ClientStream, error) {
	stream, err := s.ClientConnInterface.NewStream(ctx, desc, method, options...)
	if err != nil {
		return nil, err
	}
	return &alteredStream{stream, s}, nil
}

type alteredStream struct {
	grpc.ClientStream
	home *AlteredConn
}

func (s *alteredStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err == nil && s.home.Answer != nil {
		s.home.Answer(m)
	}
	return err
}

// CallAndCheck makes one call and then calls the caller's Check, as the load engine does.
func CallAndCheck(t testing.TB, c workload.Caller) error {
	t.Helper()
	if err := c.Call(t.Context()); err != nil {
		return err
	}
	if judge, ok := c.(interface{ Check() error }); ok {
		return judge.Check()
	}
	return nil
}

// ExpectError fails the test unless err contains the text says. If says is "", err must be nil.
func ExpectError(t testing.TB, what string, err error, says string) {
	t.Helper()
	if says == "" && err != nil || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
		t.Errorf("%s: %v, want %q", what, err, says)
	}
}
