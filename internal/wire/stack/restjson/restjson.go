// Package restjson is the stack `rest-json`: REST as most people write it, with resources as
// paths, JSON bodies and HTTP's own status codes. A service's .proto declares how its operations
// are called (package route): GET /users/{id}, POST /users.
//
//  1. The client puts the request's fields into the path, the query or a JSON body
//     (codec.go), and sends an HTTP request.
//  2. The router, net/http's or Gin, finds the route (server.go).
//  3. The server puts the fields into the message that the generated handler takes. It
//     refuses fields that the message does not have.
//  4. The server runs the handler, and answers with its message as JSON, or with its
//     error as a status code and a JSON body that has code, message and details.
//
// Metadata and deadlines are not carried: usual REST services have no place for them. The package
// must not know what the messages mean or that it is measured.
package restjson

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"wirelab.dev/internal/base/tuning"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/http"
	"wirelab.dev/internal/wire/route"
	"wirelab.dev/internal/wire/stack"
)

type adapter struct{ stack.HTTPStack }

const (
	versionKey = "http"
	codecKey   = "json"
	routerKey  = "router"

	netHTTP = "std"
	// Gin is the router that the published study used.
	Gin = "gin"
)

// Stack is rest-json.
var Stack = adapter{stack.NewHTTPStack(stack.HTTPAdapter{
	Info: stack.Info{
		Name: name, Summary: "REST: resource paths, JSON bodies, HTTP status codes; over HTTP/1.1 or HTTP/2",
		Options: append([]scenario.Option{
			{Key: versionKey, Values: []string{"1", "2"}, Default: "1", Help: "version of HTTP"},
			{Key: codecKey, Values: []string{stdCodec.name, protoJSON.name}, Default: stdCodec.name, Help: "std: encoding/json on the Go structs, as a service without protobuf would; protojson: protobuf's own mapping"},
			{Key: routerKey, Values: []string{netHTTP, Gin}, Default: netHTTP, Help: "the router. std: net/http; gin: Gin, in programs built with the tag gin, as `make build` does"},
		}, stack.TLSOptions(stack.OptionalTLS)...),
	},
	Plan:    plan,
	Refuses: map[stack.Kind]error{stack.ClientStream: errStreams, stack.ServerStream: errStreams, stack.Bidi: errStreams},
})}

func plan(o *scenario.Options) stack.HTTPPlan {
	version, codec, router := httpwire.HTTP1, stdCodec, newMux
	var settings []tuning.Setting
	if o.Text(versionKey) == "2" {
		version = httpwire.HTTP2
	}
	if o.Text(codecKey) == protoJSON.name {
		codec = protoJSON
	}
	if o.Text(routerKey) == Gin {
		router, settings = newGin, ginSettings()
	}
	return stack.HTTPPlan{
		Version: version,
		Handler: func(methods *stack.Methods) (http.Handler, error) {
			routes, err := newIndex(methods.InOrder(), codec)
			if err != nil {
				return nil, err
			}
			return router(routes)
		},
		Client: func(wire *stack.HTTPClient) stack.Client { return &client{HTTPClient: wire, codec: codec} },
		Settings: append(slices.Concat(settings, stack.MessageLimit(stack.MaxMessageBytes)), tuning.Setting{
			Side: tuning.Both, Name: "HTTP body limit", Value: strconv.Itoa(maxBodyBytes), Default: "no limit", Why: "the largest message as JSON, with its bytes in base64",
		}),
	}
}

// OnGin reports whether the variant uses the router Gin.
func OnGin(v scenario.Variant) bool {
	text, _ := v.Get(routerKey)
	return v.Stack == name && text == Gin
}

// HasGin returns an error that wraps stack.ErrUnsupported if this program was built without Gin.
func HasGin(context.Context, io.Writer) error {
	_, err := newGin(nil)
	return err
}

type client struct {
	*stack.HTTPClient
	codec  codec
	routes sync.Map // full name of an operation -> *route.Route
}

var _ stack.Client = (*client)(nil)

func (*client) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, stack.Fail(codes.Unimplemented, errStreams)
}

func (c *client) Invoke(ctx context.Context, method string, args, reply any, options ...grpc.CallOption) error {
	if err := stack.CheckCall(ctx, name, options); err != nil {
		return err
	}
	if md, has := metadata.FromOutgoingContext(ctx); has && len(md) > 0 {
		return status.Error(codes.Unimplemented, "rest-json: this wire carries no metadata; rest, h1 and grpc do")
	}
	r, err := c.route(method)
	if err != nil {
		return status.Error(codes.Internal, "rest-json: "+err.Error())
	}
	request, err := c.newRequest(ctx, *r, args)
	if err != nil {
		return err
	}
	response, err := c.Do(request)
	if err != nil {
		return c.Fail(ctx, err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := readWhole(nil, response.Body)
	if err != nil {
		return c.Fail(ctx, err)
	}
	if response.StatusCode != r.Success {
		return errorFromAnswer(response, body)
	}
	if contentType := response.Header.Get("Content-Type"); !stack.IsMedia(contentType, mediaType) {
		return status.Errorf(codes.Unknown, "rest-json: the server answered with content type %q, want %s", contentType, mediaType)
	}
	message, err := stack.ProtoMessage(name, reply)
	if err != nil {
		return err
	}
	return c.codec.decode(body, message, codes.Internal)
}

func (c *client) route(method string) (*route.Route, error) {
	if known, has := c.routes.Load(method); has {
		return known.(*route.Route), nil
	}
	r, err := route.ForMethod(method)
	if err != nil {
		return nil, err
	}
	c.routes.Store(method, &r)
	return &r, nil
}

func (c *client) newRequest(ctx context.Context, r route.Route, args any) (*http.Request, error) {
	message, err := stack.ProtoMessage(name, args)
	if err != nil {
		return nil, err
	}
	at, err := urlOf(r, message)
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
	request, err := http.NewRequestWithContext(ctx, r.Verb, c.Base+at, body)
	if err != nil {
		return nil, status.Error(codes.Internal, "rest-json: "+err.Error())
	}
	if r.InBody {
		request.Header.Set("Content-Type", mediaType)
	}
	request.Header.Set("Accept", mediaType)
	return request, nil
}

var errStreams = fmt.Errorf("rest-json: a resource answers one request with one response, so there are no streams; h1, h2, grpc and tcp have them: %w", stack.ErrUnsupported)
