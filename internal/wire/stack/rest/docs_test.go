package rest

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"wirelab.dev/internal/data/scenario"
)

// TestDocumentedExchanges plays what docs/wire-http.md shows.
func TestDocumentedExchanges(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/wire-http.md")
	if err != nil {
		t.Fatal(err)
	}
	address := serveDocumented(t)
	exchanges := regexp.MustCompile("(?s)```http\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(exchanges) != 6 {
		t.Fatalf("the page shows %d exchanges", len(exchanges))
	}
	for _, exchange := range exchanges {
		request, want := spell(t, exchange[1], ">"), spell(t, exchange[1], "<")
		if got := converse(t, address, request, len(want)); got != want {
			t.Errorf("the request\n%s\nis answered with\n%q\nand not with\n%q", request, got, want)
		}
	}
}

// spell is one side of an exchange: header lines as they are, bodies as Go
// writes strings.
func spell(t *testing.T, exchange, side string) string {
	t.Helper()
	var text strings.Builder
	for line := range strings.Lines(exchange) {
		line, ours := strings.CutPrefix(strings.TrimSuffix(line, "\n"), side)
		if !ours {
			continue
		}
		line = strings.TrimPrefix(line, " ")
		if !strings.HasPrefix(line, `"`) {
			text.WriteString(line + "\r\n")
			continue
		}
		body, err := strconv.Unquote(line)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		text.WriteString(body)
	}
	return text.String()
}

// converse sends the request and reads an answer of sizeBytes bytes. It returns the answer
// without the date.
func converse(t *testing.T, address, request string, sizeBytes int) string {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	const date = len("Date: Mon, 02 Jan 2006 15:04:05 GMT\r\n")
	answer := make([]byte, sizeBytes+date)
	n, err := io.ReadFull(conn, answer)
	if err != nil {
		t.Errorf("after %d bytes of %d: %v", n, len(answer), err)
	}
	return regexp.MustCompile("Date: [^\r]*\r\n").ReplaceAllString(string(answer[:n]), "")
}

// serveDocumented serves the operations of the page. Their messages are of a
// type without fields, which keeps all bytes it does not know.
func serveDocumented(t *testing.T) (address string) {
	t.Helper()
	server, err := REST.NewServer(scenario.Variant{Stack: "rest"})
	if err != nil {
		t.Fatal(err)
	}
	unary := func(name string, answer func(*emptypb.Empty) (*emptypb.Empty, error)) grpc.MethodDesc {
		return grpc.MethodDesc{MethodName: name, Handler: func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			in := new(emptypb.Empty)
			if err := decode(in); err != nil {
				return nil, err
			}
			return answer(in)
		}}
	}
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "example.Service",
		HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{
			unary("Echo", func(in *emptypb.Empty) (*emptypb.Empty, error) { return in, nil }),
			unary("GetUser", func(*emptypb.Empty) (*emptypb.Empty, error) { return nil, status.Error(codes.NotFound, "no user") }),
		},
		Streams: []grpc.StreamDesc{
			{StreamName: "Collect", ClientStreams: true, Handler: collect},
			{StreamName: "Watch", ServerStreams: true, Handler: watch},
		},
	}, struct{}{})
	bound, err := server.Listen(context.Background(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve() }()
	t.Cleanup(func() { _ = server.Close() })
	return bound.String()
}

// collect answers with all its requests in one.
func collect(_ any, stream grpc.ServerStream) error {
	all := new(emptypb.Empty)
	for {
		in := new(emptypb.Empty)
		err := stream.RecvMsg(in)
		if errors.Is(err, io.EOF) {
			return stream.SendMsg(all)
		}
		if err != nil {
			return err
		}
		proto.Merge(all, in)
	}
}

// watch answers with its request.
func watch(_ any, stream grpc.ServerStream) error {
	in := new(emptypb.Empty)
	if err := stream.RecvMsg(in); err != nil {
		return err
	}
	return stream.SendMsg(in)
}
