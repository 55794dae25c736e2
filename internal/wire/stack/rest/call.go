package rest

import (
	"net/http"
	"strconv"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"wirelab.dev/internal/wire/stack"
	rpccall "wirelab.dev/rpc/call"
)

// call is one call on the server, with its answer. grpc.SetHeader and
// grpc.SetTrailer find it in the handler's context.
type call struct {
	stack.ServerCall
	method *stack.Method
	codec  *codec
	w      http.ResponseWriter
	r      *http.Request
}

var _ grpc.ServerTransportStream = (*call)(nil)

// SetHeader implements grpc.ServerTransportStream.
func (c *call) SetHeader(md metadata.MD) error {
	if err := checkMetadata(md); err != nil {
		return err
	}
	return c.ServerCall.SetHeader(md)
}

// SendHeader implements grpc.ServerTransportStream. If the answer is one
// message, its header is sent with it, for the Content-Length.
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

// SetTrailer implements grpc.ServerTransportStream.
func (c *call) SetTrailer(md metadata.MD) error {
	if err := checkMetadata(md); err != nil {
		return err
	}
	return c.ServerCall.SetTrailer(md)
}

// closeHeader forbids changes of the header. It reports whether they were allowed
// until now.
func (c *call) closeHeader() bool {
	header, first := c.TakeHeader()
	if first {
		putMetadata(c.w.Header(), "", header)
	}
	return first
}

// beginStream writes the header of an answer that is a stream. Call it only if
// closeHeader returned true.
func (c *call) beginStream() {
	c.w.Header().Set("Content-Type", c.codec.stream)
	c.w.Header().Set("Trailer", codeTrailer) // without it net/http would give an empty stream a Content-Length and no trailers
	c.w.WriteHeader(http.StatusOK)
}

// putTrailer writes the trailer into header fields whose names begin with
// prefix.
func (c *call) putTrailer(prefix string) { putMetadata(c.w.Header(), prefix, c.Trailer()) }

// readRequest reads a request that is one message. If that fails, it answers the
// call with the error.
func (c *call) readRequest() (request []byte, ok bool) {
	request, err := c.codec.readWhole(c.w, c.r.Body)
	switch {
	case err == nil:
		return request, true
	case status.Code(err) == codes.ResourceExhausted:
		refuse(c.w, c.r, http.StatusRequestEntityTooLarge, rpccall.StatusOf(err))
	default:
		c.fail(status.Errorf(codes.Canceled, "rest: the request broke off: %v", err))
	}
	return nil, false
}

// reply ends a call whose answer is one message.
func (c *call) reply(message any) {
	answer, err := c.codec.marshal(message)
	if err != nil {
		c.fail(err)
		return
	}
	c.closeHeader()
	c.putTrailer(trailerPrefix)
	header := c.w.Header()
	header.Set("Content-Type", c.codec.message)
	header.Set("Content-Length", strconv.Itoa(len(answer)))
	_, _ = c.w.Write(answer) // a client that has gone needs no answer
}

// fail ends a call with an error. The answer must not have begun.
func (c *call) fail(err error) {
	c.closeHeader()
	c.putTrailer(trailerPrefix)
	st := rpccall.StatusOf(err)
	refuse(c.w, c.r, stack.HTTPStatus(st.Code()), st)
}

// refuse answers with an error: a google.rpc.Status for programs, text for people
// with curl.
func refuse(w http.ResponseWriter, r *http.Request, httpStatus int, st *status.Status) {
	contentType, body := "text/plain; charset=utf-8", []byte(st.Code().String()+": "+st.Message()+"\n")
	if codec := codecForErrors(r); codec != nil {
		contentType, body = codec.status, codec.encodeStatus(st)
	}
	header := w.Header()
	header.Set("Content-Type", contentType)
	header.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(httpStatus)
	_, _ = w.Write(body) // a client that has gone needs no answer
}

// codecForErrors chooses an error's codec by Accept or, without a known type there,
// by the request's Content-Type. nil means text.
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
