package fastgrpc

import (
	"context"
	"reflect"
	"strings"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	rpccall "wirelab.dev/rpc/call"
	"wirelab.dev/rpc/call/wire"
	"wirelab.dev/rpc/fastgrpc/internal/message"
	"wirelab.dev/rpc/h2"
)

// A serverCall is one call on a server, unary or streaming. It is a single allocation
// and never reused, because handlers may keep its context.
type serverCall struct {
	callContext rpccall.Context
	h2          h2.Stream
	conn        *serverConn
	method      *rpccall.Method
	tapped      context.Context // the result of InTapHandle, if set
	codec       message.Codec
	alias       message.Aliased

	// The request's header: the fields that the decoder has cached, and the others.
	fixed *h2.FieldSet
	rest  []hpack.HeaderField

	received   encoding.Compressor // for the request's messages
	sent       encoding.Compressor // for the response's messages
	subtype    string
	inbox      message.Inbox
	requestErr error // why the request's messages are invalid
	gotHeader  bool  // the request's header has come
	ended      bool  // the request has ended
	parked     bool  // the call waits until the connection has room for its answer
	begun      bool  // it was parked, and may run now
	gotMessage bool  // the handler of a streaming call has received a message
	httpError  *httpResponse

	signal  chan struct{} // a message or the end has come; streaming calls only
	drained chan struct{} // all sent data is in the connection's output

	headerLength int // bytes of the request's header on the wire
	headerSent   bool
	statusSent   bool
	header       metadata.MD
	trailer      metadata.MD
	observer     *observer
}

var _ rpccall.Call = (*serverCall)(nil)

// requestHead holds the header fields of a request that this package interprets.
type requestHead struct {
	path        string
	method      *rpccall.Method
	unknown     string // says why method is nil
	httpMethod  string
	contentType string
	encoding    string
	timeout     time.Duration // one more than the client's; 0 if it sent none
	authority   bool          // there is an authority
	hosts       int
	fault       string // the fault of a field, or ""
}

func (h *requestHead) add(f hpack.HeaderField) {
	switch f.Name {
	case ":method":
		h.httpMethod = f.Value
	case ":path":
		h.path = f.Value
	case wire.FieldContentType:
		h.contentType = f.Value
	case wire.FieldEncoding:
		h.encoding = f.Value
	case wire.FieldTimeout:
		d, err := wire.DecodeTimeout(f.Value)
		if err != nil {
			h.fault = err.Error()
		}
		h.timeout = min(d, 1<<62) + 1
	case ":authority":
		h.authority = true
	case "host":
		h.hosts++
	default:
		if strings.HasSuffix(f.Name, wire.BinarySuffix) {
			if err := wire.AddField(metadata.MD{}, f); err != nil {
				h.fault = err.Error()
			}
		}
	}
}

// check returns the fault of the fields, or "". The rules for hosts are from gRPC's proposal
// A41.
func (h *requestHead) check() string {
	switch {
	case h.hosts > 1:
		return "several host fields"
	case h.fault == "" && !h.authority && h.hosts == 0:
		return "neither :authority nor host"
	}
	return h.fault
}

// begin reads the request's header. It returns false if it answered the request with
// an error.
func (s *serverCall) begin(block *h2.Block) bool {
	c := s.conn
	s.headerLength = block.WireLength
	var head requestHead
	if block.Fixed != nil {
		head = c.server.readFixedRequest(block.Fixed)
		s.fixed = block.Fixed
	}
	metadataCount := 0
	for _, f := range block.Rest {
		head.add(f)
		if !wire.IsReserved(f.Name) {
			metadataCount++
		}
	}
	if head.method == nil && head.path != "" {
		head.method, head.unknown = c.server.lookup(head.path)
	}
	subtype, isGRPC := wire.ContentSubtype(head.contentType)
	switch {
	case block.TooLarge:
		s.httpError = &httpResponse{"431", "header list too large\n"}
	case head.httpMethod != "POST":
		s.httpError = &httpResponse{"405", "gRPC calls are POST requests\n"}
	case !isGRPC:
		s.httpError = &httpResponse{"415", "content-type is not application/grpc\n"}
	case head.check() != "":
		c.refuse(s, status.New(codes.Internal, head.check()))
	case head.method == nil:
		c.refuse(s, status.New(codes.Unimplemented, head.unknown))
	default:
		if metadataCount > 0 {
			s.rest = append(make([]hpack.HeaderField, 0, len(block.Rest)), block.Rest...)
		}
		return s.accept(&head, subtype)
	}
	return false
}

func (s *serverCall) accept(head *requestHead, subtype string) bool {
	opts := &s.conn.server.opts
	if s.codec = opts.codecFor(subtype); s.codec == nil {
		s.conn.refuse(s, status.New(codes.Unimplemented, "no codec for content-subtype "+subtype))
		return false
	}
	s.subtype = subtype
	if head.encoding != "" && head.encoding != encoding.Identity {
		if s.received = encoding.GetCompressor(head.encoding); s.received == nil {
			s.conn.refuse(s, status.New(codes.Unimplemented, "grpc-encoding "+head.encoding+" is not supported"))
			return false
		}
		// A client that compresses with it can also decompress it.
		s.sent = s.received
	}
	if head.timeout > 0 {
		s.callContext.SetDeadline(time.Now().Add(head.timeout - 1))
	}
	s.method = head.method
	if opts.tap != nil && !s.tap(opts.tap) {
		return false
	}
	s.inbox.Init(opts.maxReceive)
	return true
}

// tap lets the program refuse the call. The connection's lock is held, so the program does not get
// the stream, whose methods take that lock.
func (s *serverCall) tap(h tap.ServerInHandle) bool {
	var err error
	s.tapped, err = h(tapContext{&s.callContext}, &tap.Info{FullMethodName: s.method.Name, Header: s.incoming()})
	if err == nil {
		return true
	}
	st, ok := status.FromError(err)
	if !ok {
		st = status.New(codes.PermissionDenied, err.Error())
	}
	s.method = nil
	s.conn.refuse(s, st)
	return false
}

// tapContext is a call's context without its stream.
type tapContext struct{ context.Context }

func (c tapContext) Value(key any) any {
	if key == rpccall.Keys.TransportStream {
		return nil
	}
	return c.Context.Value(key)
}

// ContextValue returns the values that grpc-go's packages look up.
func (s *serverCall) ContextValue(key any) any {
	switch key {
	case rpccall.Keys.Incoming:
		return s.incoming()
	case rpccall.Keys.Peer:
		return s.conn.peer
	case rpccall.Keys.TransportStream:
		return s
	}
	if isConnectionKey(key) {
		return s.conn.NetConn()
	}
	return s.conn.ctx.Value(key)
}

// isConnectionKey reports whether grpc-go's authz and RBAC use the key to look up the connection,
// for its address. No exported function uses the key, so its type's name identifies it.
func isConnectionKey(key any) bool {
	t := reflect.TypeOf(key)
	return t != nil && t.Kind() == reflect.Struct && t.Name() == "connectionKey" &&
		t.PkgPath() == "google.golang.org/grpc/internal/transport"
}

func (s *serverCall) context() context.Context {
	if s.tapped == nil {
		return &s.callContext
	}
	return grpc.NewContextWithServerTransportStream(s.tapped, s)
}

// readFixedRequest reads fields that the decoder has cached, once per connection.
func (s *Server) readFixedRequest(set *h2.FieldSet) requestHead {
	if head, ok := set.Memo.(*requestHead); ok {
		return *head
	}
	head := new(requestHead)
	for _, f := range set.Fields {
		head.add(f)
	}
	if head.path != "" {
		head.method, head.unknown = s.lookup(head.path)
	}
	set.Memo = head
	return *head
}

func (s *serverCall) incoming() metadata.MD {
	md := make(metadata.MD, 4)
	if s.fixed != nil {
		s.addIncoming(md, s.fixed.Fields)
	}
	s.addIncoming(md, s.rest)
	if host, ok := md["host"]; ok {
		if len(md[":authority"]) == 0 {
			md[":authority"] = host
		}
		delete(md, "host")
	}
	return md
}

func (s *serverCall) addIncoming(md metadata.MD, fields []hpack.HeaderField) {
	for _, f := range fields {
		if f.Name == ":authority" {
			md[f.Name] = []string{f.Value}
			continue
		}
		_ = wire.AddField(md, f) // requestHead has refused invalid fields
	}
}

// onData splits content into messages, with the lock held.
func (s *serverCall) onData(data []byte) {
	if s.requestErr != nil {
		s.conn.h2.Consume(&s.h2, len(data))
	} else {
		s.requestErr = s.inbox.Receive(s.conn.source(), &s.h2, data, s.signal != nil)
	}
	if s.signal != nil {
		rpccall.WakeOne(s.signal)
	} else if s.requestErr != nil {
		s.requestEnded()
	}
}

// requestEnded handles the end of the request, with the lock held.
func (s *serverCall) requestEnded() {
	if s.ended {
		return
	}
	s.ended = true
	if s.method == nil {
		if s.httpError != nil {
			s.conn.sendHTTPResponse(s)
		}
		return
	}
	if s.signal != nil {
		rpccall.WakeOne(s.signal)
		return
	}
	if s.requestErr == nil && (s.inbox.Len() == 0 || s.inbox.Unfinished()) {
		s.requestErr = status.Error(codes.Internal, "fastgrpc: request ended within a message")
	}
	s.conn.ready = append(s.conn.ready, s)
}

// abort cancels the call, with the lock held.
func (s *serverCall) abort(err error) {
	if s.method == nil && s.httpError == nil {
		return // refuse has answered and released the call
	}
	if s.parked || s.signal == nil && !s.ended {
		// No worker has the call, so it must be released here.
		s.ended, s.parked = true, false
		s.conn.CallEnded(false)
		s.conn.release(s)
	}
	s.callContext.Cancel(err)
}

// resetAtDeadline resets a unary call whose request is still incomplete at its deadline, as
// grpc-go does: no handler runs that could answer it. The connection's lock is held.
func (s *serverCall) resetAtDeadline() {
	s.callContext.StartTimerWith(func() {
		c := s.conn
		c.Mu.Lock()
		if !s.ended {
			s.ended = true
			c.h2.Reset(&s.h2, http2.ErrCodeCancel)
			c.CallEnded(false)
			c.release(s)
			c.Flush()
		}
		c.Mu.Unlock()
		s.callContext.Cancel(context.DeadlineExceeded)
	})
}

func (s *serverCall) ContextEnded() {
	if s.signal != nil {
		rpccall.WakeOne(s.signal)
		rpccall.WakeOne(s.drained)
	}
}

func (s *serverCall) dropMessages() {
	s.inbox.Drop()
	if s.signal == nil {
		s.alias.Release() // a unary handler has returned
	} else {
		s.alias.End()
	}
}
