package fastgrpc

import (
	"cmp"
	"context"
	"reflect"
	"sync"
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

// A callHandle is the part of a call on a server that its handler may keep: the context and, through
// it, the grpc.ServerTransportStream. The other part, the serverCall, is used again for another call.
type callHandle struct {
	callContext rpccall.Context
	conn        *serverConn
	method      *rpccall.Method
	call        *serverCall     // nil when the call has ended; the connection's lock guards it
	tapped      context.Context // the context that InTapHandle returned, or nil

	// The request's header fields: fixed holds those that the decoder has cached, rest the others.
	fixed *h2.FieldSet
	rest  []hpack.HeaderField

	signal  chan struct{} // a message or the request's end has come; streaming calls only
	drained chan struct{} // the connection's output has taken all sent data; streaming calls only
}

var _ rpccall.Call = (*callHandle)(nil)

// A serverCall is one call on a server.
type serverCall struct {
	*callHandle
	h2    h2.Stream
	codec message.Codec
	alias message.AliasedMemory

	received   encoding.Compressor // the compressor of the request's messages
	sent       encoding.Compressor // the compressor of the response's messages
	subtype    string
	inbox      message.Inbox
	requestErr error         // not nil if the request's messages are invalid
	gotHeader  bool          // the request's header has arrived
	ended      bool          // the request has ended
	parked     bool          // the handler waits until the client has read more responses
	begun      bool          // the call was parked, and its handler may run now
	gotMessage bool          // the handler of a streaming call has received a message
	reusable   bool          // the call has ended, and its stream is closed
	httpError  *httpResponse // set if the request is not gRPC

	headerLength int // bytes of the request's header on the wire
	headerSent   bool
	statusSent   bool
	header       metadata.MD
	trailer      metadata.MD
	observer     *observer
}

// serverCalls holds serverCalls for reuse.
var serverCalls = sync.Pool{New: func() any { return new(serverCall) }}

// newServerCall returns a new call of a connection.
func newServerCall(c *serverConn) *serverCall {
	s := serverCalls.Get().(*serverCall)
	s.callHandle = &callHandle{conn: c, call: s}
	s.callContext.Init(s.callHandle)
	s.h2.Owner = s
	return s
}

// recycle makes the serverCall available for another call. Only unary calls are used again, because a
// goroutine of a handler may still use a stream. Stats handlers may keep a call, too.
func (s *serverCall) recycle() {
	if s.reusable && s.method.Unary != nil && s.observer == nil {
		*s = serverCall{}
		serverCalls.Put(s)
	}
}

// requestHead holds the values of a request's header fields that this package uses.
type requestHead struct {
	path        string
	method      *rpccall.Method
	unknown     string // the reason why method is nil
	httpMethod  string
	contentType string
	encoding    string
	timeout     time.Duration // the client's timeout plus 1 ns; 0 if the client sent none
	authority   bool          // the request has the field :authority
	hosts       int           // the number of host fields
	fault       string        // says why a field is invalid; "" if all are valid
}

func (h *requestHead) addField(f hpack.HeaderField) {
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
		h.fault = cmp.Or(h.fault, binaryFault(f))
	}
}

// findFault says why the header is invalid, or returns "" if it is valid. The rules for host fields
// are in gRFC A41.
func (h *requestHead) findFault() string {
	switch {
	case h.hosts > 1:
		return "the request has more than one host field, want one"
	case h.fault == "" && !h.authority && h.hosts == 0:
		return "the request has neither the field :authority nor the field host, want one of them"
	}
	return h.fault
}

// readHeader reads the request's header. It returns false if it has refused the request with an
// error response.
func (s *serverCall) readHeader(block *h2.Block) bool {
	c := s.conn
	s.headerLength = block.WireLength
	var head requestHead
	if block.Fixed != nil {
		head = c.server.readFixedRequest(block.Fixed)
		s.fixed = block.Fixed
	}
	metadataCount := 0
	for _, f := range block.Rest {
		head.addField(f)
		if !wire.IsReserved(f.Name) {
			metadataCount++
		}
	}
	if head.method == nil && head.path != "" {
		head.method, head.unknown = c.server.lookupMethod(head.path)
	}
	subtype, isGRPC := wire.ContentSubtype(head.contentType)
	switch {
	case block.TooLarge:
		s.httpError = &httpResponse{"431", "the request header is too large: send less metadata\n"}
	case head.httpMethod != "POST":
		s.httpError = &httpResponse{"405", "this is a gRPC server: use the HTTP method POST\n"}
	case !isGRPC:
		s.httpError = &httpResponse{"415", "this is a gRPC server: use the content-type application/grpc\n"}
	case head.findFault() != "":
		c.refuseCall(s, status.New(codes.Internal, head.findFault()))
	case head.method == nil:
		c.refuseCall(s, status.New(codes.Unimplemented, head.unknown))
	default:
		if metadataCount > 0 {
			s.rest = append(make([]hpack.HeaderField, 0, len(block.Rest)), block.Rest...)
		}
		return s.acceptRequest(&head, subtype)
	}
	return false
}

// shortTimeout is the timeout below which acceptRequest looks whether the deadline has passed.
const shortTimeout = time.Millisecond

func (s *serverCall) acceptRequest(head *requestHead, subtype string) bool {
	opts := &s.conn.server.opts
	if s.codec = opts.codecFor(subtype); s.codec == nil {
		s.conn.refuseCall(s, status.New(codes.Unimplemented, "the server has no codec for the content-subtype "+subtype))
		return false
	}
	s.subtype = subtype
	if head.encoding != "" && head.encoding != encoding.Identity {
		if s.received = encoding.GetCompressor(head.encoding); s.received == nil {
			s.conn.refuseCall(s, status.New(codes.Unimplemented, "the server does not support the grpc-encoding "+head.encoding))
			return false
		}
		// A client that uses a compressor for requests can also decompress responses.
		s.sent = s.received
	}
	if head.timeout > 0 {
		deadline := time.Now().Add(head.timeout - 1)
		if head.timeout < shortTimeout && !time.Now().Before(deadline) {
			s.conn.refuseCall(s, status.FromContextError(context.DeadlineExceeded))
			return false
		}
		s.callContext.SetDeadline(deadline)
	}
	s.method = head.method
	if opts.tap != nil && !s.runTapHandle(opts.tap) {
		return false
	}
	s.inbox.Init(opts.maxReceive)
	return true
}

// runTapHandle calls the function of InTapHandle, which may refuse the call. The connection's lock
// is held. The function cannot reach the stream, because the stream's methods lock the same lock.
func (s *serverCall) runTapHandle(h tap.ServerInHandle) bool {
	var err error
	s.tapped, err = h(tapContext{&s.callContext}, &tap.Info{FullMethodName: s.method.Name, Header: s.incomingMetadata()})
	if err == nil {
		return true
	}
	st, ok := status.FromError(err)
	if !ok {
		st = status.New(codes.PermissionDenied, err.Error())
	}
	s.method = nil
	s.conn.refuseCall(s, st)
	return false
}

// tapContext is a call's context that hides the call's stream.
type tapContext struct{ context.Context }

func (c tapContext) Value(key any) any {
	if key == rpccall.Keys.TransportStream {
		return nil
	}
	return c.Context.Value(key)
}

// ContextValue returns the context values that grpc-go's packages read.
func (h *callHandle) ContextValue(key any) any {
	switch key {
	case rpccall.Keys.Incoming:
		return h.incomingMetadata()
	case rpccall.Keys.Peer:
		return h.conn.peer
	case rpccall.Keys.TransportStream:
		return h
	}
	if isConnectionKey(key) {
		return h.conn.NetConn()
	}
	return h.conn.ctx.Value(key)
}

// isConnectionKey reports whether key is the key under which grpc-go's packages authz and rbac find
// the connection. grpc-go does not export that key, so the function compares its type's name.
func isConnectionKey(key any) bool {
	t := reflect.TypeOf(key)
	return t != nil && t.Kind() == reflect.Struct && t.Name() == "connectionKey" &&
		t.PkgPath() == "google.golang.org/grpc/internal/transport"
}

func (h *callHandle) context() context.Context {
	if h.tapped == nil {
		return &h.callContext
	}
	return grpc.NewContextWithServerTransportStream(h.tapped, h)
}

// readFixedRequest reads header fields that the decoder has cached. It caches the result, too.
func (s *Server) readFixedRequest(set *h2.FieldSet) requestHead {
	if head, ok := set.Memo.(*requestHead); ok {
		return *head
	}
	head := new(requestHead)
	for _, f := range set.Fields {
		head.addField(f)
	}
	if head.path != "" {
		head.method, head.unknown = s.lookupMethod(head.path)
	}
	set.Memo = head
	return *head
}

func (h *callHandle) incomingMetadata() metadata.MD {
	md := make(metadata.MD, 4)
	if h.fixed != nil {
		h.addIncomingFields(md, h.fixed.Fields)
	}
	h.addIncomingFields(md, h.rest)
	if host, ok := md["host"]; ok {
		if len(md[":authority"]) == 0 {
			md[":authority"] = host
		}
		delete(md, "host")
	}
	return md
}

func (h *callHandle) addIncomingFields(md metadata.MD, fields []hpack.HeaderField) {
	for _, f := range fields {
		if f.Name == ":authority" {
			md[f.Name] = []string{f.Value}
			continue
		}
		_ = wire.AddField(md, f) // readHeader has refused invalid fields
	}
}

// onData splits the request's content into messages. The lock is held.
func (s *serverCall) onData(data []byte) {
	if s.requestErr != nil {
		s.conn.h2.Consume(&s.h2, len(data))
	} else {
		s.requestErr = s.inbox.Receive(s.conn.messageSource(), &s.h2, data, s.signal != nil)
	}
	if s.signal != nil {
		rpccall.WakeOne(s.signal)
	} else if s.requestErr != nil {
		s.onRequestEnd()
	}
}

// onRequestEnd handles the end of the request. The lock is held.
func (s *serverCall) onRequestEnd() {
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
		s.requestErr = status.Error(codes.Internal, "fastgrpc: the request ended in the middle of a message")
	}
	s.conn.ready = append(s.conn.ready, s)
}

// abort cancels the call. The lock is held.
func (s *serverCall) abort(err error) {
	if s.method == nil && s.httpError == nil {
		return // refuseCall has already answered and released the call
	}
	if s.parked || s.signal == nil && !s.ended {
		// No worker will release the call, because its handler does not run.
		s.ended, s.parked = true, false
		s.conn.endCall(s, false)
	}
	s.callContext.Cancel(err)
}

// resetAtDeadline resets a unary call if its request is incomplete at the deadline, as in grpc-go.
// No handler runs that could answer the call. The connection's lock is held.
func (s *serverCall) resetAtDeadline() {
	h := s.callHandle
	h.callContext.StartTimerWith(func() {
		c := h.conn
		c.Mu.Lock()
		if s := h.call; s != nil && !s.ended {
			s.ended = true
			c.h2.Reset(&s.h2, http2.ErrCodeCancel)
			c.endCall(s, false)
			c.Flush()
		}
		c.Mu.Unlock()
		h.callContext.Cancel(context.DeadlineExceeded)
	})
}

func (h *callHandle) ContextEnded() {
	if h.signal != nil {
		rpccall.WakeOne(h.signal)
		rpccall.WakeOne(h.drained)
	}
}

func (s *serverCall) dropMessages() {
	s.inbox.Drop()
	if s.signal == nil {
		s.alias.Release() // the handler of a unary call has returned
	} else {
		s.alias.EndCall()
	}
}
