package rest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"wirelab.dev/internal/wire/route"
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
	list := methodIndex(methods)
	// With a pattern "GET /{$}" the mux would check the HTTP method of every call.
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" && r.Method == http.MethodGet {
			serveIndex(w, r, list, methods)
			return
		}
		sendError(w, r, http.StatusNotFound, status.Newf(codes.Unimplemented, "rest: unknown operation %q; this server has\n%s", r.URL.Path, list))
	})
	return mux, nil
}

type endpoint struct{ *stack.Method }

func (e endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		sendError(w, r, http.StatusMethodNotAllowed, status.Newf(codes.Unimplemented, "rest: %s takes POST, not %s; try\n  %s", r.URL.Path, r.Method, curlTo(r, e.Method, protobuf)))
		return
	}
	contentType := r.Header.Get("Content-Type")
	codec := codecOf(contentType, e.ClientStreams())
	if codec == nil {
		sendError(w, r, http.StatusUnsupportedMediaType, status.Newf(codes.Unimplemented, "rest: %s takes %s or %s, not %q; try\n  %s",
			r.URL.Path, protobuf.mediaType(e.ClientStreams()), json.mediaType(e.ClientStreams()), contentType, curlTo(r, e.Method, protobuf)))
		return
	}
	if r.ContentLength > codec.maxBytes && !e.ClientStreams() {
		sendError(w, r, http.StatusRequestEntityTooLarge, rpccall.StatusOf(codec.errTooLarge(r.ContentLength)))
		return
	}
	ctx, cancel, err := callContext(r)
	if err != nil {
		sendError(w, r, http.StatusBadRequest, status.New(codes.InvalidArgument, "rest: "+err.Error()))
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

// callContext returns a context with the deadline and the metadata in the request's header.
func callContext(r *http.Request) (context.Context, context.CancelFunc, error) {
	ctx, cancel := r.Context(), context.CancelFunc(func() {})
	if text := r.Header.Get(timeoutHeader); text != "" {
		timeout, err := wire.DecodeTimeout(text)
		if err != nil {
			return nil, nil, err
		}
		ctx, cancel = context.WithTimeout(ctx, timeout)
	}
	if md := stack.MetadataIn(r.Header, "", isReserved); md != nil {
		ctx = metadata.NewIncomingContext(ctx, md)
	}
	return ctx, cancel, nil
}

func serveUnary(ctx context.Context, c *call) {
	request, ok := c.readRequest()
	if !ok {
		return
	}
	decode := func(message any) error { return c.codec.unmarshal(request, message, codes.InvalidArgument) }
	answer, err := c.method.Unary.Handler(c.method.Service, ctx, decode, nil)
	if err != nil {
		c.failCall(err)
		return
	}
	c.reply(answer)
}

// call is one call at the server. grpc.SetHeader and similar functions use it through the context.
type call struct {
	stack.ServerCall
	method *stack.Method
	codec  *codec
	w      http.ResponseWriter
	r      *http.Request
}

var _ grpc.ServerTransportStream = (*call)(nil)

func (c *call) SetHeader(md metadata.MD) error {
	if err := checkMetadata(md); err != nil {
		return err
	}
	return c.ServerCall.SetHeader(md)
}

// SendHeader sends the header of a stream. The header of a single message is sent later, together
// with its Content-Length.
func (c *call) SendHeader(md metadata.MD) error {
	if err := c.SetHeader(md); err != nil {
		return err
	}
	if !c.closeHeader() || !c.method.ServerStreams() {
		return nil
	}
	c.beginStream()
	return http.NewResponseController(c.w).Flush()
}

func (c *call) SetTrailer(md metadata.MD) error {
	if err := checkMetadata(md); err != nil {
		return err
	}
	return c.ServerCall.SetTrailer(md)
}

// closeHeader prevents later changes of the header. It returns true in its first call only.
func (c *call) closeHeader() bool {
	header, first := c.TakeHeader()
	if first {
		stack.PutMetadata(c.w.Header(), "", header, isReserved)
	}
	return first
}

// beginStream sends a stream's header. Call it only if closeHeader returned true.
func (c *call) beginStream() {
	c.w.Header().Set("Content-Type", c.codec.stream)
	c.w.Header().Set("Trailer", codeTrailer) // otherwise an empty stream would get a Content-Length and no trailers
	c.w.WriteHeader(http.StatusOK)
}

func (c *call) putTrailer(prefix string) {
	stack.PutMetadata(c.w.Header(), prefix, c.Trailer(), isReserved)
}

// readRequest reads a single request message. If it fails, it answers the call with the error.
func (c *call) readRequest() (request []byte, ok bool) {
	request, err := c.codec.readWhole(c.w, c.r.Body)
	switch {
	case err == nil:
		return request, true
	case status.Code(err) == codes.ResourceExhausted:
		sendError(c.w, c.r, http.StatusRequestEntityTooLarge, rpccall.StatusOf(err))
	default:
		c.failCall(status.Errorf(codes.Canceled, "rest: the client stopped in the middle of the request: %v", err))
	}
	return nil, false
}

func (c *call) reply(message any) {
	answer, err := c.codec.marshal(message)
	if err != nil {
		c.failCall(err)
		return
	}
	c.closeHeader()
	c.putTrailer(trailerPrefix)
	stack.AnswerHTTP(c.w, http.StatusOK, c.codec.message, answer)
}

// failCall ends a call with an error. Call it only before the answer has begun.
func (c *call) failCall(err error) {
	c.closeHeader()
	c.putTrailer(trailerPrefix)
	st := rpccall.StatusOf(err)
	sendError(c.w, c.r, stack.HTTPStatus(st.Code()), st)
}

// sendError answers with an error: a google.rpc.Status for programs, or text for people who use
// curl.
func sendError(w http.ResponseWriter, r *http.Request, httpStatus int, st *status.Status) {
	contentType, body := "text/plain; charset=utf-8", []byte(st.Code().String()+": "+st.Message()+"\n")
	if codec := codecForErrors(r); codec != nil {
		contentType, body = codec.status, codec.encodeStatus(st)
	}
	stack.AnswerHTTP(w, httpStatus, contentType, body)
}

// codecForErrors selects the codec for an error by Accept, or else by Content-Type. Nil means text.
func codecForErrors(r *http.Request) *codec {
	for _, names := range []string{r.Header.Get("Accept"), r.Header.Get("Content-Type")} {
		switch {
		case strings.Contains(names, protobuf.name):
			return protobuf
		case strings.Contains(names, json.name):
			return json
		case strings.Contains(names, "text/"):
			return nil
		}
	}
	return nil
}

// shortPaths maps each short path to its method. It fails if two operations have the same path.
func shortPaths(methods []*stack.Method) (map[string]*stack.Method, error) {
	paths := make(map[string]*stack.Method, len(methods))
	var clashes []error
	for _, method := range methods {
		path := route.ShortPath(method.Name())
		if first, taken := paths[path]; taken {
			clashes = append(clashes, fmt.Errorf("operations %s and %s would both be served at %s", first.FullName, method.FullName, path))
			continue
		}
		paths[path] = method
	}
	return paths, errors.Join(clashes...)
}

func methodIndex(methods []*stack.Method) string {
	var list strings.Builder
	last := ""
	for _, method := range methods {
		service := strings.TrimPrefix(strings.TrimSuffix(method.FullName, "/"+method.Name()), "/")
		if service != last {
			fmt.Fprintf(&list, "\n%s\n", service)
			last = service
		}
		fmt.Fprintf(&list, "  POST %-20s %s\n", route.ShortPath(method.Name()), method.Kind)
	}
	return list.String()
}

// serveIndex answers GET / with a list of operations, for browsers and curl.
func serveIndex(w http.ResponseWriter, r *http.Request, list string, methods []*stack.Method) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprintf(w, "wirelab, over %s\n%s", r.Proto, list)
	if len(methods) > 0 {
		fmt.Fprintf(w, "\nMessages are protobuf or JSON, as the Content-Type says. Try\n  %s\n", curlTo(r, methods[0], json))
	}
}

// curlTo returns a curl command that calls a method with the same version of HTTP as the request.
func curlTo(r *http.Request, method *stack.Method, c *codec) string {
	stream := method.ClientStreams()
	data := "--data-binary @request.bin"
	if c == json && !stream {
		data = "--data '{}'"
	}
	command, scheme := "curl", "http"
	switch {
	case r.TLS != nil:
		command, scheme = "curl --cacert root.pem", "https"
	case r.ProtoMajor == 2:
		command = "curl --http2-prior-knowledge"
	}
	return fmt.Sprintf("%s %s -H 'Content-Type: %s' %s://%s%s", command, data, c.mediaType(stream), scheme, r.Host, route.ShortPath(method.Name()))
}
