// Package restjson is the stack `rest-json`: REST as most people write it, with
// resources for paths, JSON for bodies and HTTP's own status codes.
//
// A service says in its .proto how its operations are called (package route):
// GET /users/{id}, POST /users. A call passes through these stages:
//
//  1. The client puts the request's fields into the path, the query or a JSON body
//     (fields.go, codec.go), and sends an HTTP request.
//  2. The router, net/http's or Gin, finds the route (engine.go).
//  3. The server puts the fields into the message that the generated handler takes. It
//     refuses fields that the message does not have.
//  4. The server runs the handler, and answers with its message as JSON, or with its
//     error as a status code and a JSON body that has code, message and details
//     (status.go).
//
// Gin is used without its logger, which would write a line for each request. Metadata
// and deadlines are not carried: REST as people write it has no place for them.
//
// The package must not know what the messages mean or that it is measured.
package restjson

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strconv"

	"wirelab.dev/internal/base/tuning"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/http"
	"wirelab.dev/internal/wire/stack"
)

type adapter struct{ stack.HTTPStack }

const (
	versionKey = "http"
	codecKey   = "json"
	routerKey  = "router"

	netHTTP = "std"
	// Gin is the router of the published study.
	Gin = "gin"
)

// Stack is rest-json.
var Stack = adapter{stack.NewHTTPStack(stack.HTTPAdapter{
	Info: stack.Info{
		Name: name, Summary: "REST: resource paths, JSON bodies, HTTP status codes; over HTTP/1.1 or HTTP/2",
		Options: append([]scenario.Option{
			{Key: versionKey, Values: []string{"1", "2"}, Default: "1", Help: "version of HTTP"},
			{Key: codecKey, Values: []string{std.name, protoJSON.name}, Default: std.name, Help: "std: encoding/json on the Go structs, as a service without protobuf would; protojson: the mapping of protobuf's own"},
			{Key: routerKey, Values: []string{netHTTP, Gin}, Default: netHTTP, Help: "what finds the route of a request. std: net/http; gin: Gin, in programs built with the tag gin, as `make build` does"},
		}, stack.TLSOptions(stack.OptionalTLS)...),
	},
	Plan: plan,
	CheckKind: func(kind stack.Kind) error {
		if kind != stack.Unary {
			return errStreams
		}
		return nil
	},
})}

func plan(o *scenario.Options) stack.HTTPPlan {
	version, codec, router := httpwire.HTTP1, codecOf(o), newMux
	var settings []tuning.Setting
	if o.Text(versionKey) == "2" {
		version = httpwire.HTTP2
	}
	if o.Text(routerKey) == Gin {
		router, settings = newGin, ginSettings()
	}
	return stack.HTTPPlan{
		Version: version,
		Handler: func(methods *stack.Methods) (http.Handler, error) {
			routes, err := newIndex(methods.All(), codec)
			if err != nil {
				return nil, err
			}
			return router(routes)
		},
		Client: func(wire *stack.HTTPClient) stack.Client { return &client{HTTPClient: wire, codec: codec} },
		Settings: append(slices.Concat(settings, stack.MessageLimit(stack.MaxMessageBytes)), tuning.Setting{
			Side: tuning.Both, Name: "HTTP body limit", Value: strconv.Itoa(maxBodyBytes), Default: "no limit", Why: "what the largest message takes as JSON, whose bytes are in base64",
		}),
	}
}

func codecOf(o *scenario.Options) codec {
	if o.Text(codecKey) == protoJSON.name {
		return protoJSON
	}
	return std
}

// OnGin reports whether the variant runs on Gin.
func OnGin(v scenario.Variant) bool {
	text, _ := v.Get(routerKey)
	return v.Stack == name && text == Gin
}

// HasGin returns an error that wraps stack.ErrUnsupported if this program was built
// without Gin.
func HasGin(context.Context, io.Writer) error {
	_, err := newGin(nil)
	return err
}
