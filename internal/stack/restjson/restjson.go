// Package restjson is the stack `rest-json`: REST as most people write it, with
// resources for paths, JSON for bodies and HTTP's own status codes.
//
// A service says in its .proto how its operations are called (package route):
// GET /users/{id}, POST /users. A call passes through like this. The client puts
// the request's fields into the path, the query or a JSON body, and makes an HTTP
// request of them. The router (net/http's, or Gin) finds the route; the server puts the fields back into the
// very message that the generated handler takes, lets it run, and writes its
// answer as JSON, or its error as a status code with a JSON body that has code,
// message and details (status.go). What comes in is read strictly: a field that
// there is not is an error, and not a field that is silently lost.
//
// Gin is used without its logger, which would write a line a request. Metadata
// and deadlines are not carried: REST as people write it has no place for them.
//
// The package must not know what the messages mean or that it is measured.
package restjson

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"wirelab.dev/internal/httpwire"
	"wirelab.dev/internal/scenario"
	"wirelab.dev/internal/stack"
	"wirelab.dev/internal/tuning"
)

// Stack is rest-json. The zero value is ready.
type Stack struct{}

var (
	_ stack.Stack             = Stack{}
	_ stack.KindLimiter       = Stack{}
	_ stack.SettingsReporter  = Stack{}
	_ stack.ConnectionChooser = Stack{}
	_ stack.ProtocolChooser   = Stack{}
)

const (
	name       = "rest-json"
	versionKey = "http"
	codecKey   = "json"
	routerKey  = "router"

	netHTTP = "std"
	// Gin is the router of the published study.
	Gin = "gin"
)

// Info implements stack.Stack. The connections are net/http's pool, which grows to
// one a client.
func (Stack) Info() stack.Info {
	return stack.Info{
		Name: name, Summary: "REST: resource paths, JSON bodies, HTTP status codes; over HTTP/1.1 or HTTP/2",
		Options: append([]scenario.Option{
			{Key: versionKey, Values: []string{"1", "2"}, Default: "1", Help: "version of HTTP"},
			{Key: codecKey, Values: []string{std.name, protoJSON.name}, Default: std.name, Help: "std: encoding/json on the Go structs, as a service without protobuf would; protojson: the mapping of protobuf's own"},
			{Key: routerKey, Values: []string{netHTTP, Gin}, Default: netHTTP, Help: "what finds the route of a request. std: net/http; gin: Gin, in programs built with the tag gin, as `make build` does"},
		}, stack.TLSOptions(stack.OptionalTLS)...),
		Connection: scenario.Connection{Mode: scenario.Pool}, Protocol: httpwire.HTTP1.String(),
	}
}

// ConnectionFor is one for all over HTTP/2, which was made for it.
func (s Stack) ConnectionFor(v scenario.Variant) (mode scenario.Connection, fixed bool) {
	if plan, _, err := s.read(v); err == nil && plan.Version == httpwire.HTTP2 {
		return scenario.Connection{Mode: scenario.Shared}, false
	}
	return s.Info().Connection, false
}

// ProtocolFor implements stack.ProtocolChooser.
func (s Stack) ProtocolFor(v scenario.Variant) string {
	plan, _, _ := s.read(v)
	return plan.Version.String()
}

func (s Stack) read(v scenario.Variant) (plan stack.HTTPPlan, c codec, err error) {
	o := stack.ReadOptions(s, v)
	plan, c = stack.HTTPPlan{Name: name, Version: httpwire.HTTP1, Security: stack.SecurityOf(o)}, std
	if o.Text(versionKey) == "2" {
		plan.Version = httpwire.HTTP2
	}
	if o.Text(codecKey) == protoJSON.name {
		c = protoJSON
	}
	return plan, c, o.Err()
}

// routerOf is newGin or newMux.
func routerOf(v scenario.Variant) router {
	if OnGin(v) {
		return newGin
	}
	return newMux
}

// OnGin reports whether the variant runs on Gin.
func OnGin(v scenario.Variant) bool {
	text, _ := v.Get(routerKey)
	return v.Stack == name && text == Gin
}

// HasGin returns an error that wraps stack.ErrUnsupported where this program was
// built without Gin.
func HasGin(context.Context, io.Writer) error {
	_, err := newGin(nil)
	return err
}

// NewServer implements stack.Stack.
func (s Stack) NewServer(v scenario.Variant) (stack.Server, error) {
	plan, codec, err := s.read(v)
	if err != nil {
		return nil, err
	}
	return plan.NewServer(func(methods *stack.Methods) (http.Handler, error) {
		routes, err := newIndex(methods.All(), codec)
		if err != nil {
			return nil, err
		}
		return routerOf(v)(routes)
	}), nil
}

// NewClient implements stack.Stack.
func (s Stack) NewClient(ctx context.Context, v scenario.Variant, target stack.Target) (stack.Client, error) {
	plan, codec, err := s.read(v)
	if err != nil {
		return nil, err
	}
	wire, err := plan.NewClient(ctx, target)
	if err != nil {
		return nil, err
	}
	return &client{HTTPClient: wire, codec: codec}, nil
}

// errStreams is what both ends say about streams.
var errStreams = fmt.Errorf("rest-json: a resource is asked for and answered, so there are no streams; h1, h2, grpc and tcp have: %w", stack.ErrUnsupported)

// CheckKind implements stack.KindLimiter.
func (Stack) CheckKind(_ scenario.Variant, kind stack.Kind) error {
	if kind != stack.Unary {
		return errStreams
	}
	return nil
}

// Settings implements stack.SettingsReporter.
func (s Stack) Settings(v scenario.Variant, t stack.Target) ([]tuning.Setting, error) {
	plan, _, err := s.read(v)
	if err != nil {
		return nil, err
	}
	var all []tuning.Setting
	if OnGin(v) {
		all = ginSettings()
	}
	all = append(all, stack.MessageLimit(stack.MaxMessageBytes)...)
	all = append(all, tuning.Setting{Side: tuning.Both, Name: "HTTP body limit", Value: strconv.Itoa(maxBodyBytes), Default: "no limit", Why: "what the largest message takes as JSON, whose bytes are in base64"})
	return append(all, plan.Settings(t)...), nil
}
