package reach

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"wirelab.dev/internal/wire/schema"
	"wirelab.dev/internal/wire/service"
)

// A Method says which files describe a gRPC method, and how a call sends its messages.
type Method struct {
	Proto    string   // file that defines the service; if empty, Protoset or the server does
	Imports  []string // folders to search for imports of Proto
	Protoset string   // descriptor file
	Messages int      // how many times a streaming call sends its messages
	Binary   bool     // the request's body holds encoded messages, not JSON
	Pace     time.Duration
}

// DescribeTimeout limits the time in which a server must describe its methods.
const DescribeTimeout = 4 * time.Second

// Find finds the method, and converts the JSON in the request's body into gRPC calls.
func (m *Method) Find(ctx context.Context, d *service.Definition, request service.Request) error {
	method, err := m.find(ctx, d, request)
	if m.Binary && errors.Is(err, schema.ErrNoReflection) { // the message may be sent all the same
		request.Method, request.Messages, request.Body = http.MethodPost, [][]byte{request.Body}, nil
		d.Requests = []service.Request{request}
		return nil
	}
	if err != nil {
		return err
	}
	if m.Messages > 1 && !method.Stream.Client {
		return fmt.Errorf("--messages %d: each call of %s sends only one message", m.Messages, method.Path)
	}
	request.Method, request.Path = http.MethodPost, method.Path
	request.Stream, request.Pace = method.Stream, m.Pace
	switch {
	case m.Pace != 0 && !method.Stream.Client:
		return fmt.Errorf("--pace %v: each call of %s sends only one message", m.Pace, method.Path)
	case m.Pace != 0 && d.Wire == service.GRPCH3:
		return errors.New("--pace: HTTP/3 sends all messages of a call at once: leave out --http 3")
	}
	if len(d.Expect) > 0 || d.Holding.ReadsMessages() {
		if d.Descriptors, err = method.Files(); err != nil {
			return err
		}
	}
	if d.Feed != nil { // a worker encodes each call's messages later
		if m.Messages > 1 {
			return errors.New("--messages cannot be used with templates or rows: write the messages into --data, as an array")
		}
		d.Requests, d.Feed.Requests = []service.Request{request}, []service.Request{request}
		d.Feed.Descriptors, err = method.Files()
		return err
	}
	encode := method.Calls
	if m.Binary {
		encode = method.EncodedCalls
	}
	calls, err := encode(request.Body)
	if err != nil {
		return fmt.Errorf("--data: %w", err)
	}
	d.Requests, request.Body = nil, nil
	for _, messages := range calls {
		request.Messages = slices.Repeat(messages, m.Messages)
		d.Requests = append(d.Requests, request)
	}
	return nil
}

// DescribeAll returns a result of schema.Method.Files for each path of a method.
func (m *Method) DescribeAll(ctx context.Context, d *service.Definition, paths []string, header []service.Field) (map[string][]byte, error) {
	all := map[string][]byte{}
	for _, path := range paths {
		method, err := m.find(ctx, d, service.Request{Path: path, Header: header})
		if err == nil {
			all[path], err = method.Files()
		}
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// AsksServer reports whether only the server can describe the method.
func (m *Method) AsksServer() bool { return m.Proto == "" && m.Protoset == "" }

// find finds the request's method in the files, or asks the server.
func (m *Method) find(ctx context.Context, d *service.Definition, request service.Request) (*schema.Method, error) {
	source := schema.Source{Proto: m.Proto, ImportPaths: m.Imports, Protoset: m.Protoset, Call: request.Path, Data: request.Body}
	if m.AsksServer() {
		limited, cancel := context.WithTimeout(ctx, DescribeTimeout)
		defer cancel()
		conn, err := dialGRPC(d)
		if err != nil {
			return nil, err
		}
		defer func() { _ = conn.Close() }()
		ctx, source.Reflection, source.Metadata = limited, conn, metadata.MD{}
		for _, f := range request.Header {
			source.Metadata.Append(f.Name, f.Value)
		}
	}
	method, err := schema.Find(ctx, source)
	if _, is := status.FromError(err); is && err != nil && d.Wire == service.GRPCH3 {
		return nil, fmt.Errorf("the list of methods is read over HTTP/2, on TCP, and the request failed: name the .proto with --proto or --protoset: %s", FirstLine(err))
	}
	return method, err
}

// dialGRPC opens a grpc-go connection to the service, to ask for its methods.
func dialGRPC(d *service.Definition) (*grpc.ClientConn, error) {
	config, err := d.TLSConfig()
	if err != nil {
		return nil, err
	}
	// Over TLS, grpc-go uses the certificate's name as the authority.
	as := []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority(d.Authority)}
	if config != nil {
		config.NextProtos = []string{"h2"}
		as = []grpc.DialOption{grpc.WithTransportCredentials(credentials.NewTLS(config))}
	}
	dial := func(ctx context.Context, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, d.Network, d.Address)
	}
	return grpc.NewClient("passthrough:///"+d.Authority, append(as, grpc.WithContextDialer(dial), grpc.WithNoProxy())...)
}
