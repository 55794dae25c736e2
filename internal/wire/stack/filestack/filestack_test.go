package filestack_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/stack/filestack"
	"wirelab.dev/internal/wire/stack/stacktest"
	"wirelab.dev/internal/wire/stack/stacktest/testpb"
)

var _ = stacktest.Skips{
	{Stack: "file", Suite: "Run", Reason: "it carries server streams alone, and the suite begins with unary calls"},
	{Stack: "file", Suite: "RunSecurity", Reason: "it is cleartext alone"},
	{Stack: "file", Suite: "RunLeaks", Reason: "the suite makes unary calls, which it does not carry"},
}

// counting answers a server stream by its script, and counts how often it has to.
type counting struct {
	testpb.UnimplementedTestServiceServer
	calls atomic.Int32
}

func (c *counting) ServerStream(in *testpb.TestRequest, stream grpc.ServerStreamingServer[testpb.TestResponse]) error {
	c.calls.Add(1)
	for i := range in.Count {
		if err := stream.Send(&testpb.TestResponse{Index: i, Body: in.Body}); err != nil {
			return err
		}
	}
	if in.Code != 0 {
		return status.Error(codes.Code(in.Code), in.Message)
	}
	return nil
}

// rig is a server of a variant, and a client of it.
type rig struct {
	handler *counting
	server  stack.Server
	address string
	stub    testpb.TestServiceClient
}

func start(t *testing.T, text string) *rig {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir())
	variant, err := scenario.ParseVariant(text)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{handler: &counting{}}
	if r.server, err = filestack.Stack.NewServer(variant); err != nil {
		t.Fatal(err)
	}
	testpb.RegisterTestServiceServer(r.server, r.handler)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	address, err := r.server.Listen(ctx, "127.0.0.1:0")
	if errors.Is(err, stack.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- r.server.Serve() }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := errors.Join(r.server.Shutdown(ctx), <-served); err != nil {
			t.Errorf("the server ended with %v", err)
		}
		if left, _ := filepath.Glob(filepath.Join(os.Getenv("TMPDIR"), "wirelab-file-*")); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	})
	r.address = address.String()
	client, err := filestack.Stack.NewClient(ctx, variant, stack.Target{Address: r.address})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	r.stub = testpb.NewTestServiceClient(client)
	return r
}

// receive reads a stream to its end.
func (r *rig) receive(t *testing.T, in *testpb.TestRequest) ([]*testpb.TestResponse, error) {
	t.Helper()
	stream, err := r.stub.ServerStream(t.Context(), in)
	if err != nil {
		return nil, err
	}
	var all []*testpb.TestResponse
	for {
		out, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		all = append(all, out)
	}
}

// both runs a test with each file server.
func both(t *testing.T, test func(*testing.T, *rig)) {
	for _, variant := range []string{"file", "file:server=caddy"} {
		t.Run(variant, func(t *testing.T) { test(t, start(t, variant)) })
	}
}

func TestStreamsComeFromFiles(t *testing.T) {
	both(t, func(t *testing.T, r *rig) {
		for _, in := range []*testpb.TestRequest{
			{Count: 3, Body: []byte("x")}, {Count: 1000, Body: make([]byte, 100)}, {Count: 1}, {},
		} {
			r.handler.calls.Store(0)
			for range 3 {
				got, err := r.receive(t, in)
				if err != nil || len(got) != int(in.Count) {
					t.Fatalf("%d messages of %d, %v", len(got), in.Count, err)
				}
				for i, m := range got {
					if m.Index != int32(i) || !bytes.Equal(m.Body, in.Body) {
						t.Fatalf("message %d came as %d with %d bytes", i, m.Index, len(m.Body))
					}
				}
			}
			if calls := r.handler.calls.Load(); calls != 1 {
				t.Errorf("the handler answered %d times: the files were not used", calls)
			}
		}
	})
}

func TestWhatFails(t *testing.T) {
	both(t, func(t *testing.T, r *rig) {
		_, err := r.receive(t, &testpb.TestRequest{Count: 1, Code: int32(codes.NotFound), Message: "no such thing"})
		if status.Code(err) != codes.NotFound || status.Convert(err).Message() != "no such thing" {
			t.Errorf("the handler's error came as %v", err)
		}
		_, err = r.stub.Unary(t.Context(), &testpb.TestRequest{})
		if status.Code(err) != codes.Unimplemented {
			t.Errorf("a unary call: %v", err)
		}
		if _, err = r.stub.ClientStream(t.Context()); status.Code(err) != codes.Unimplemented {
			t.Errorf("a client stream: %v", err)
		}
		if _, err = r.receive(t, &testpb.TestRequest{Body: make([]byte, 1000)}); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("a request longer than a name: %v", err)
		}
		for i := range 20 {
			if _, err = r.receive(t, &testpb.TestRequest{Count: 1, Body: fmt.Append(nil, i)}); err != nil {
				break
			}
		}
		if status.Code(err) != codes.ResourceExhausted {
			t.Errorf("the folder grows without bound: %v", err)
		}
	})
}

// TestStrangers asks for what is no answer of the service's.
func TestStrangers(t *testing.T) {
	both(t, func(t *testing.T, r *rig) {
		h2c := &http.Transport{Protocols: new(http.Protocols)}
		h2c.Protocols.SetUnencryptedHTTP2(true)
		defer h2c.CloseIdleConnections()
		for _, path := range []string{
			"/", "/x", "/../../../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/../make.sock", "/wirelab.stacktest.v1.TestService/ServerStream/xyz",
			"/wirelab.stacktest.v1.TestService/Unary/x", "/wirelab.stacktest.v1.TestService/ServerStream/x/../x08",
		} {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+r.address, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			request.URL.Opaque = path // as it is
			response, err := h2c.RoundTrip(request)
			if err != nil {
				t.Errorf("%s: %v", path, err)
				continue
			}
			_ = response.Body.Close()
			if response.StatusCode < 300 {
				t.Errorf("%s is answered with %s", path, response.Status)
			}
		}
		if _, err := r.receive(t, &testpb.TestRequest{Count: 1}); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	})
}

// TestCaddyThatIsNotThere wants words that help.
func TestCaddyThatIsNotThere(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	err := listenCaddy(t)
	if !errors.Is(err, stack.ErrUnsupported) || !bytes.Contains([]byte(err.Error()), []byte("--yardstick caddy")) {
		t.Errorf("Listen says %v", err)
	}
}

// TestCaddyThatFails puts a program into its place that ends at once.
func TestCaddyThatFails(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	path := filepath.Join(os.Getenv("XDG_CACHE_HOME"), "wirelab", "caddy-"+filestack.Caddy.Version, "caddy")
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("#!/bin/sh\necho no such directive >&2; exit 1\n"), 0o700)); err != nil {
		t.Fatal(err)
	}
	if err := listenCaddy(t); err == nil || !bytes.Contains([]byte(err.Error()), []byte("no such directive")) {
		t.Errorf("Listen says %v", err)
	}
}

func listenCaddy(t *testing.T) error {
	t.Helper()
	variant, err := scenario.ParseVariant("file:server=caddy")
	if err != nil {
		t.Fatal(err)
	}
	server, err := filestack.Stack.NewServer(variant)
	if err != nil {
		t.Fatal(err)
	}
	_, err = server.Listen(t.Context(), "127.0.0.1:0")
	return errors.Join(err, server.Close())
}
