package restjson

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"wirelab.dev/internal/httpwire"
	"wirelab.dev/internal/route"
	"wirelab.dev/internal/stack"
)

// client turns calls into requests for resources.
type client struct {
	wire    *httpwire.Client
	base    string // "http://HOST:PORT"
	codec   codec
	routes  sync.Map // full name of an operation -> *route.Route
	life    context.Context
	endLife context.CancelFunc
}

var _ stack.Client = (*client)(nil)

func newClient(wire *httpwire.Client, base string, c codec) *client {
	made := &client{wire: wire, base: base, codec: c}
	made.life, made.endLife = context.WithCancel(context.Background())
	return made
}

// Close implements stack.Client. It ends the calls that are running.
func (c *client) Close() error {
	c.endLife()
	return c.wire.Close()
}

// NewStream implements grpc.ClientConnInterface.
func (*client) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, stack.Fail(codes.Unimplemented, errStreams)
}

// Traffic implements stack.TrafficReporter.
func (c *client) Traffic() (stack.Traffic, bool) { return stack.TrafficOf(c.wire) }

// Invoke implements grpc.ClientConnInterface.
func (c *client) Invoke(ctx context.Context, method string, args, reply any, options ...grpc.CallOption) error {
	if err := checkCall(ctx, options); err != nil {
		return err
	}
	r, err := c.route(method)
	if err != nil {
		return status.Error(codes.Internal, "rest-json: "+err.Error())
	}
	request, err := c.newRequest(ctx, *r, args)
	if err != nil {
		return err
	}
	response, err := c.wire.Do(request)
	if err != nil {
		return c.failure(ctx, err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := readWhole(nil, response.Body)
	if err != nil {
		return c.failure(ctx, err)
	}
	if response.StatusCode != r.Success {
		return errorIn(response, body)
	}
	if contentType := response.Header.Get("Content-Type"); !isJSON(contentType) {
		return status.Errorf(codes.Unknown, "rest-json: the server answered with %q and not with %s", contentType, mediaType)
	}
	return c.decode(body, reply)
}

func (c *client) decode(body []byte, reply any) error {
	m, ok := reply.(proto.Message)
	if !ok {
		return status.Errorf(codes.Internal, "rest-json: %T is not a protobuf message", reply)
	}
	if err := c.codec.unmarshal(body, m); err != nil {
		return status.Errorf(codes.Internal, "rest-json: the answer is no %s: %v", m.ProtoReflect().Descriptor().FullName(), err)
	}
	return checkSize(m, body)
}

func (c *client) route(method string) (*route.Route, error) {
	if known, has := c.routes.Load(method); has {
		return known.(*route.Route), nil
	}
	r, err := route.Of(method)
	if err != nil {
		return nil, err
	}
	c.routes.Store(method, &r)
	return &r, nil
}

// newRequest is the HTTP request of a call.
func (c *client) newRequest(ctx context.Context, r route.Route, args any) (*http.Request, error) {
	message, ok := args.(proto.Message)
	if !ok {
		return nil, status.Errorf(codes.Internal, "rest-json: %T is not a protobuf message", args)
	}
	at, err := location(r, message)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, "rest-json: "+err.Error())
	}
	var body io.Reader
	if r.InBody {
		encoded, err := c.codec.encode(message)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(encoded)
	}
	request, err := http.NewRequestWithContext(ctx, r.Verb, c.base+at, body)
	if err != nil {
		return nil, status.Error(codes.Internal, "rest-json: "+err.Error())
	}
	if r.InBody {
		request.Header.Set("Content-Type", mediaType)
	}
	request.Header.Set("Accept", mediaType)
	return request, nil
}

// failure is what a call ends with whose wire failed.
func (c *client) failure(ctx context.Context, err error) error {
	var own interface{ GRPCStatus() *status.Status } // of readWhole
	switch {
	case ctx.Err() == nil && c.life.Err() != nil:
		return stack.Fail(codes.Canceled, errors.New("rest-json: the client is closed"))
	case ctx.Err() == nil && errors.As(err, &own):
		return own.GRPCStatus().Err()
	default:
		return stack.FailContext(ctx, err)
	}
}

// checkCall refuses what would be asked for in vain.
func checkCall(ctx context.Context, options []grpc.CallOption) error {
	if err := ctx.Err(); err != nil {
		return status.FromContextError(err).Err()
	}
	if md, has := metadata.FromOutgoingContext(ctx); has && len(md) > 0 {
		return status.Error(codes.Unimplemented, "rest-json: this wire carries no metadata; rest, h1 and grpc do")
	}
	for _, option := range options {
		switch option.(type) {
		case grpc.HeaderCallOption, grpc.TrailerCallOption, grpc.StaticMethodCallOption, grpc.FailFastCallOption:
		default:
			return status.Errorf(codes.Unimplemented, "rest-json: the call option %T has no meaning on this wire", option)
		}
	}
	return nil
}
