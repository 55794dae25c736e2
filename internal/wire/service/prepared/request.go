package prepared

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2/hpack"

	"wirelab.dev/internal/wire/service"
	"wirelab.dev/internal/wire/service/prepared/http1"
	"wirelab.dev/rpc/call/wire"
	"wirelab.dev/rpc/h2"
)

type encodedRequests[T any] struct {
	first *service.Request // the first request, and often the only one
	only  *T
	all   map[*service.Request]*T
}

func encodeAll[T any](d *service.Definition, encode func(*service.Definition, *service.Request) (*T, error)) (encodedRequests[T], error) {
	r := encodedRequests[T]{all: map[*service.Request]*T{}}
	for i := range d.Requests {
		one := &d.Requests[i]
		encoded, err := encode(d, one)
		if err != nil {
			return r, fmt.Errorf("request %d of %d (%s %s): %w", i+1, len(d.Requests), one.Method, one.Path, err)
		}
		if r.all[one] = encoded; r.first == nil {
			r.first, r.only = one, encoded
		}
	}
	return r, nil
}

func (r *encodedRequests[T]) find(request *service.Request) (*T, error) {
	if request == r.first {
		return r.only, nil
	}
	if encoded, found := r.all[request]; found {
		return encoded, nil
	}
	return nil, errors.New("the definition does not have this request: only requests of the definition are prepared")
}

type h1Request struct {
	bytes   []byte
	header  int64 // length of bytes without the body
	content http1.Content
	close   bool // the connection must not be used for another call
}

func encodeHTTP1(d *service.Definition, r *service.Request) (*h1Request, error) {
	if err := checkRequest(d, r); err != nil {
		return nil, err
	}
	encoded := &h1Request{}
	if r.Method == http.MethodHead {
		encoded.content = http1.NoBody
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\n", r.Method, r.Path, d.Authority)
	for _, f := range requestFields(d, r, "host", "content-length", "transfer-encoding") {
		if strings.EqualFold(f.Name, "connection") && httpguts.HeaderValuesContainsToken([]string{f.Value}, "close") {
			encoded.close = true
		}
		fmt.Fprintf(&b, "%s: %s\r\n", f.Name, f.Value)
	}
	b.WriteString("\r\n")
	b.Write(r.Body)
	encoded.bytes, encoded.header = b.Bytes(), int64(b.Len()-len(r.Body))
	return encoded, nil
}

// requestFields returns a request's header fields. It removes fields that this package sets itself
// or cannot send. It adds the user agent and, over HTTP, the body's length.
func requestFields(d *service.Definition, r *service.Request, without ...string) []service.Field {
	fields := slices.DeleteFunc(slices.Clone(r.Header), func(f service.Field) bool { return slices.Contains(without, strings.ToLower(f.Name)) })
	if !slices.ContainsFunc(fields, func(f service.Field) bool { return strings.EqualFold(f.Name, "user-agent") }) {
		fields = append(fields, service.Field{Name: "User-Agent", Value: service.UserAgent})
	}
	usuallyHasBody := slices.Contains([]string{http.MethodPost, http.MethodPut, http.MethodPatch}, r.Method) // RFC 9110, section 8.6
	if d.Wire != service.GRPC && (usuallyHasBody || len(r.Body) > 0) {
		fields = append(fields, service.Field{Name: "Content-Length", Value: strconv.Itoa(len(r.Body))})
	}
	return fields
}

// checkRequest refuses a request whose text could inject another request.
func checkRequest(d *service.Definition, r *service.Request) error {
	switch {
	case !httpguts.ValidHeaderFieldName(r.Method):
		return fmt.Errorf("%q is not an HTTP method: want a word such as GET or POST", r.Method)
	case r.Path != "*" && !strings.HasPrefix(r.Path, "/"):
		return fmt.Errorf("the path %q does not begin with a slash: add one", r.Path)
	case strings.ContainsFunc(r.Path, func(c rune) bool { return c <= ' ' || c == 0x7f }):
		return fmt.Errorf("the path %q contains a space or a control character: write a space as %%20", r.Path)
	case !httpguts.ValidHostHeader(d.Authority):
		return fmt.Errorf("the server's name %q is not a valid host name", d.Authority)
	}
	for _, f := range r.Header {
		if !httpguts.ValidHeaderFieldName(f.Name) || !httpguts.ValidHeaderFieldValue(f.Value) {
			return fmt.Errorf("the header %q has the value %q, which HTTP does not allow: change the name or the value", f.Name, f.Value)
		}
	}
	return nil
}

type h2Request struct {
	fields *h2.FixedFields
	body   []byte
	grpc   bool
	head   bool // the method is HEAD, so the answer has no body
}

func encodeHTTP2(d *service.Definition, r *service.Request) (*h2Request, error) {
	if err := checkRequest(d, r); err != nil {
		return nil, err
	}
	fields := pseudoFields(d, r)
	for _, f := range requestFields(d, r, "host", "content-length",
		"connection", "proxy-connection", "keep-alive", "transfer-encoding", "upgrade") { // RFC 9113, section 8.2.2
		fields = append(fields, hpack.HeaderField{Name: strings.ToLower(f.Name), Value: f.Value})
	}
	return &h2Request{fields: h2.NewFixedFields(fields...), body: r.Body, head: r.Method == http.MethodHead}, nil
}

func pseudoFields(d *service.Definition, r *service.Request) []hpack.HeaderField {
	scheme := "http"
	if d.TLS != nil {
		scheme = "https"
	}
	return []hpack.HeaderField{
		{Name: ":method", Value: r.Method},
		{Name: ":scheme", Value: scheme},
		{Name: ":path", Value: r.Path},
		{Name: ":authority", Value: d.Authority},
	}
}

// The server's timeout is the client's timeout, plus a sixteenth of it, plus serverExtraTime. So
// the client gives up first, and late calls always fail in the same way.
const serverExtraTime = 10 * time.Millisecond

// encodeGRPC encodes a unary gRPC call (grpc/grpc, doc/PROTOCOL-HTTP2.md).
func encodeGRPC(d *service.Definition, r *service.Request) (*h2Request, error) {
	post := *r
	post.Method = http.MethodPost
	if err := checkRequest(d, &post); err != nil {
		return nil, err
	}
	fields := append(pseudoFields(d, &post), hpack.HeaderField{Name: wire.FieldContentType, Value: wire.ContentType}, hpack.HeaderField{Name: "te", Value: "trailers"})
	if d.Timeout > 0 {
		fields = append(fields, hpack.HeaderField{Name: wire.FieldTimeout, Value: wire.EncodeTimeout(d.Timeout + d.Timeout/16 + serverExtraTime)})
	}
	for _, f := range requestFields(d, r, "te", wire.FieldContentType, "host", "connection", "content-length", wire.FieldTimeout) {
		name, value := strings.ToLower(f.Name), f.Value
		switch {
		case strings.HasPrefix(name, "grpc-"):
			return nil, fmt.Errorf("the metadata %q cannot be sent: gRPC reserves names that begin with grpc-", f.Name)
		case strings.HasSuffix(name, wire.BinarySuffix):
			value = wire.EncodeBinary(value)
		}
		fields = append(fields, hpack.HeaderField{Name: name, Value: value})
	}
	var message []byte
	if len(r.Messages) > 0 {
		message = r.Messages[0]
	}
	return &h2Request{fields: h2.NewFixedFields(fields...), body: wire.AppendMessage(nil, message), grpc: true}, nil
}
