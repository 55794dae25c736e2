package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"wirelab.dev/internal/wire/schema"
	"wirelab.dev/internal/wire/service"
)

// methodFlags say where a method of gRPC is described.
type methodFlags struct {
	proto     string
	imports   []string
	protoset  string
	call      string
	plaintext bool
	messages  int
	pace      time.Duration
}

func (m *methodFlags) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&m.proto, "proto", "", "gRPC: the .proto `file` that has the service (default: the server is asked, by reflection)")
	f.StringArrayVar(&m.imports, "import-path", nil, "gRPC: `directory` that --proto and its imports are found in (default: the file's own)")
	f.StringVar(&m.protoset, "protoset", "", "gRPC: a `file` of descriptors, as protoc --descriptor_set_out or buf build -o writes")
	f.StringVar(&m.call, "call", "", "gRPC: the `method`, as in pkg.Service/Method, where the target does not name it")
	f.BoolVar(&m.plaintext, "plaintext", false, "gRPC: a target without a scheme is called without TLS")
	f.DurationVar(&m.pace, "pace", 0, "gRPC: `time` between two messages that a call sends")
	f.IntVar(&m.messages, "messages", 1, "gRPC: how many times a call that streams sends its `messages`")
}

// isGRPC reports whether the flags are about gRPC.
func (m *methodFlags) isGRPC() bool {
	return m.call != "" || m.proto != "" || m.protoset != "" || m.plaintext
}

// usualScheme is that of a target that has none.
func (m *methodFlags) usualScheme() string {
	switch {
	case m.isGRPC() && m.plaintext:
		return "grpc"
	case m.isGRPC():
		return "grpcs"
	default:
		return "http"
	}
}

// apply puts the method into the target.
func (m *methodFlags) apply(t *service.Target) error {
	switch {
	case !t.Wire.IsGRPC() && m.isGRPC():
		return errors.New("--call, --proto, --protoset and --plaintext are about gRPC: write grpc:// or grpcs://")
	case !t.Wire.IsGRPC():
		return nil
	case m.pace < 0:
		return fmt.Errorf("--pace: found %v: want more than 0s", m.pace)
	case m.messages < 1:
		return fmt.Errorf("--messages: found %d: want 1 or more", m.messages)
	case t.Path == "" && m.call == "":
		return fmt.Errorf("target %s: it names no method: write it behind the port, as in %s/pkg.Service/Method, or with --call", t, t)
	case t.Path == "":
		t.Path = "/" + strings.TrimPrefix(m.call, "/")
	case m.call != "":
		return fmt.Errorf("--call %s: the target names the method %s already: give one of the two", m.call, t.Path)
	}
	return nil
}

// describeAtMost bounds how long a server is asked for its methods.
const describeAtMost = 4 * time.Second

// find finds the method, and makes its calls of the JSON that is the request's body.
func (m *methodFlags) find(ctx context.Context, d *service.Definition, request service.Request) error {
	source := schema.Source{Proto: m.proto, ImportPaths: m.imports, Protoset: m.protoset, Call: request.Path, Data: request.Body}
	if m.proto == "" && m.protoset == "" {
		limited, cancel := context.WithTimeout(ctx, describeAtMost)
		defer cancel()
		conn, err := dialGRPC(d)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		ctx, source.Reflection, source.Metadata = limited, conn, metadata.MD{}
		for _, f := range request.Header {
			source.Metadata.Append(f.Name, f.Value)
		}
	}
	method, err := schema.Find(ctx, source)
	if _, is := status.FromError(err); is && err != nil && d.Wire == service.GRPCH3 {
		return fmt.Errorf("a server of gRPC over HTTP/3 is asked for its methods over HTTP/2, on TCP, and that failed: name the .proto with --proto or --protoset: %s", firstOf(err))
	}
	if err != nil {
		return err
	}
	if m.messages > 1 && !method.Stream.Client {
		return fmt.Errorf("--messages %d: a call of %s sends one message", m.messages, method.Path)
	}
	request.Method, request.Path = http.MethodPost, method.Path
	request.Stream, request.Pace = service.Stream{Client: method.Stream.Client, Server: method.Stream.Server}, m.pace
	switch {
	case m.pace != 0 && !method.Stream.Client:
		return fmt.Errorf("--pace %v: a call of %s sends one message", m.pace, method.Path)
	case m.pace != 0 && d.Wire == service.GRPCH3:
		return errors.New("--pace: over HTTP/3 the messages of a call are sent at once: leave --http 3 out")
	}
	if len(d.Expect) > 0 {
		if d.Descriptors, err = method.Files(); err != nil {
			return err
		}
	}
	if d.Feed != nil {
		return m.feed(d, method, request)
	}
	calls, err := method.Calls(request.Body)
	if err != nil {
		return fmt.Errorf("--data: %w", err)
	}
	d.Requests, request.Body = nil, nil
	for _, messages := range calls {
		request.Messages = slices.Repeat(messages, m.messages)
		d.Requests = append(d.Requests, request)
	}
	return nil
}

// feed lets a worker encode the messages of each call.
func (m *methodFlags) feed(d *service.Definition, method *schema.Method, request service.Request) (err error) {
	if m.messages > 1 {
		return errors.New("--messages: not with templates and rows: write the messages into --data, as an array")
	}
	d.Requests, d.Feed.Requests = []service.Request{request}, []service.Request{request}
	d.Feed.Descriptors, err = method.Files()
	return err
}

// dialGRPC makes a connection of grpc-go to the target, to ask it for its methods.
func dialGRPC(d *service.Definition) (*grpc.ClientConn, error) {
	config, err := d.TLSConfig()
	if err != nil {
		return nil, err
	}
	// Over TLS grpc-go takes the authority from the certificate's name.
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
