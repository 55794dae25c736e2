package rest

import (
	"context"
	"net/http"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"wirelab.dev/internal/wire/stack"
	rpccall "wirelab.dev/rpc/call"
	"wirelab.dev/rpc/call/wire"
)

// newHandler serves each method at its short path and at its full name.
func newHandler(methods []*stack.Method) (http.Handler, error) {
	paths, err := shortPaths(methods)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	for path, method := range paths {
		endpoint := endpoint{method}
		mux.Handle(path, endpoint)
		mux.Handle(method.FullName, endpoint)
	}
	list := index(methods)
	// A pattern "GET /{$}" would make the mux check the method of every call.
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" && r.Method == http.MethodGet {
			serveIndex(w, r, list, methods)
			return
		}
		refuse(w, r, http.StatusNotFound, status.Newf(codes.Unimplemented, "rest: unknown operation %q; this server has\n%s", r.URL.Path, list))
	})
	return mux, nil
}

// endpoint answers the calls of one method.
type endpoint struct{ *stack.Method }

func (e endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		refuse(w, r, http.StatusMethodNotAllowed, status.Newf(codes.Unimplemented, "rest: %s takes POST, not %s; try\n  %s", r.URL.Path, r.Method, curlTo(r, e.Method, protobuf)))
		return
	}
	contentType := r.Header.Get("Content-Type")
	codec := codecOf(contentType, e.ClientStreams())
	if codec == nil {
		refuse(w, r, http.StatusUnsupportedMediaType, status.Newf(codes.Unimplemented, "rest: %s takes %s or %s, not %q; try\n  %s",
			r.URL.Path, protobuf.body(e.ClientStreams()), json.body(e.ClientStreams()), contentType, curlTo(r, e.Method, protobuf)))
		return
	}
	if r.ContentLength > codec.maxBytes && !e.ClientStreams() {
		refuse(w, r, http.StatusRequestEntityTooLarge, rpccall.StatusOf(codec.errTooLarge(r.ContentLength)))
		return
	}
	ctx, cancel, err := callContext(r)
	if err != nil {
		refuse(w, r, http.StatusBadRequest, status.New(codes.InvalidArgument, "rest: "+err.Error()))
		return
	}
	defer cancel()
	c := &call{ServerCall: stack.ServerCall{FullMethod: e.FullName}, method: e.Method, codec: codec, w: w, r: r}
	ctx = grpc.NewContextWithServerTransportStream(ctx, c)
	if e.Kind == stack.Unary {
		serveUnary(ctx, c)
	} else {
		serveStream(ctx, c)
	}
}

// callContext returns the handler's context: the request's context with the caller's
// deadline and metadata. net/http cancels it when the client hangs up.
func callContext(r *http.Request) (context.Context, context.CancelFunc, error) {
	ctx, cancel := r.Context(), context.CancelFunc(func() {})
	if text := r.Header.Get(timeoutHeader); text != "" {
		timeout, err := wire.DecodeTimeout(text)
		if err != nil {
			return nil, nil, err
		}
		ctx, cancel = context.WithTimeout(ctx, timeout)
	}
	if md := metadataIn(r.Header, ""); md != nil {
		ctx = metadata.NewIncomingContext(ctx, md)
	}
	return ctx, cancel, nil
}

// serveUnary reads a message, runs the handler, and writes a message.
func serveUnary(ctx context.Context, c *call) {
	request, ok := c.readRequest()
	if !ok {
		return
	}
	decode := func(message any) error { return c.codec.unmarshal(request, message, codes.InvalidArgument) }
	answer, err := c.method.Unary.Handler(c.method.Service, ctx, decode, nil)
	if err != nil {
		c.fail(err)
		return
	}
	c.reply(answer)
}
