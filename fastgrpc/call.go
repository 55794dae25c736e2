package fastgrpc

import (
	"net/http"
	"strconv"
	"time"

	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"wirelab.dev/fastgrpc/internal/h2"
)

// call is one call on a client, guarded by its connection's lock until it has
// ended; then it is its caller's alone.
type call struct {
	h2        h2.Stream
	conn      *clientConn
	streaming bool
	deadline  time.Time     // zero if there is none
	signal    chan struct{} // the end of a unary call; anything new on a stream
	drained   chan struct{} // what was sent is on its way; streams only
	headers   chan struct{} // closed with the response's header; streams only

	received   encoding.Compressor
	assembler  assembler
	queue      []message
	first      [1]message
	heldCredit int

	keepFields bool // somebody wants the metadata
	gotHeader  bool
	header     []hpack.HeaderField
	trailer    []hpack.HeaderField

	ended       bool
	status      *status.Status // nil is OK
	cause       error          // what the connection met, where that ended the call
	unprocessed bool           // the server promises that it did nothing
}

// newUnaryCall takes a call from the client's pool: a pool of its own, because calls
// hold channels, which must not leave a test's bubble (testing/synctest).
func (c *Client) newUnaryCall(info *callInfo) *call {
	u, _ := c.calls.Get().(*call)
	if u == nil {
		u = &call{signal: make(chan struct{}, 1)}
		u.h2.Owner = u
	}
	u.assembler.limit = info.maxReceive
	u.queue = u.first[:0]
	u.keepFields = info.header != nil || info.trailer != nil || info.observer != nil
	return u
}

// recycle puts a call back whose end its caller has been signalled, or that never
// began.
func (c *Client) recycle(u *call) {
	u.drop()
	signal := u.signal
	*u = call{signal: signal}
	u.h2.Owner = u
	c.calls.Put(u)
}

// err is what the call ended with.
func (c *call) err() error { return withCause(c.status, c.cause) }

func (c *call) drop() {
	for i := range c.queue {
		c.queue[i].release()
	}
	c.queue = nil
	c.assembler.drop()
}

// finish ends the call, once, with the lock held.
func (c *call) finish(st *status.Status) {
	if c.ended {
		return
	}
	c.ended = true
	c.status = st
	code := codes.OK
	if st != nil {
		code = st.Code()
	}
	c.conn.counters.ended(code)
	c.conn.h2.Release(&c.h2)
	if !c.streaming {
		// Its caller will use the call again as soon as it knows; the state machine
		// is not done with it yet.
		c.conn.ended = append(c.conn.ended, c)
		return
	}
	wakeOne(c.signal)
	wakeOne(c.drained)
	c.openHeader()
}

func (c *call) openHeader() {
	select {
	case <-c.headers:
	default:
		close(c.headers)
	}
}

// fail ends the call from this side and cancels it on the server, with the lock held.
func (c *call) fail(st *status.Status) {
	if c.ended {
		return
	}
	c.conn.h2.Reset(&c.h2, h2.CodeCancel)
	c.finish(st)
}

// responseHead is what a block of response fields says.
type responseHead struct {
	httpStatus, contentType, encoding string
	code, message, details            string
}

func (h *responseHead) add(f hpack.HeaderField) {
	switch f.Name {
	case ":status":
		h.httpStatus = f.Value
	case fieldContentType:
		h.contentType = f.Value
	case fieldEncoding:
		h.encoding = f.Value
	case fieldStatus:
		h.code = f.Value
	case fieldMessage:
		h.message = f.Value
	case fieldDetails:
		h.details = f.Value
	}
}

// readResponse returns what a block says. The result may be the memo of the block's
// remembered run, so it must not be changed.
func readResponse(block *h2.Block) *responseHead {
	known := &noResponse
	if block.Fixed != nil {
		known = readFixedResponse(block.Fixed)
	}
	if len(block.Rest) == 0 {
		return known
	}
	head := *known
	for _, f := range block.Rest {
		head.add(f)
	}
	return &head
}

// noResponse is what a block says that has no remembered run, before it is read.
var noResponse responseHead

func readFixedResponse(set *h2.FieldSet) *responseHead {
	if known, ok := set.Memo.(*responseHead); ok {
		return known
	}
	known := new(responseHead)
	for _, f := range set.Fields {
		known.add(f)
	}
	set.Memo = known
	return known
}

// onHeaders takes the header of the response, its trailers, or both in one.
func (c *call) onHeaders(block *h2.Block, end bool) {
	if block.TooLarge() {
		c.fail(status.New(codes.Internal, "fastgrpc: response header list too large"))
		return
	}
	head := readResponse(block)
	if !c.gotHeader {
		if st := c.checkHeader(head, end); st != nil {
			c.fail(st)
			return
		}
		c.gotHeader = true
		if !end {
			c.header = c.kept(block)
			if c.streaming {
				c.openHeader()
			}
		}
	}
	if end {
		c.trailer = c.kept(block)
		c.end(head)
	}
}

// checkHeader returns what a response that is not gRPC means, or nil.
func (c *call) checkHeader(head *responseHead, end bool) *status.Status {
	if head.httpStatus != "200" && head.code == "" {
		code := codeOfHTTP(head.httpStatus)
		return status.Newf(code, "fastgrpc: unexpected HTTP status %s (%s)", head.httpStatus, httpStatusText(head.httpStatus))
	}
	if _, ok := contentSubtype(head.contentType); !ok && !(end && head.code != "") {
		return status.Newf(codes.Unknown, "fastgrpc: response with content-type %q", head.contentType)
	}
	if name := head.encoding; name != "" && name != encoding.Identity {
		// Not knowing it matters only if a message is compressed.
		c.received = encoding.GetCompressor(name)
	}
	return nil
}

func httpStatusText(s string) string {
	n, _ := strconv.Atoi(s)
	return http.StatusText(n)
}

// codeOfHTTP is gRPC's mapping of statuses that proxies and other servers send.
func codeOfHTTP(s string) codes.Code {
	switch s {
	case "400":
		return codes.Internal
	case "401":
		return codes.Unauthenticated
	case "403":
		return codes.PermissionDenied
	case "404":
		return codes.Unimplemented
	case "429", "502", "503", "504":
		return codes.Unavailable
	}
	return codes.Unknown
}

// codeOfReset is gRPC's mapping of RST_STREAM codes. A server cancels a call whose
// deadline has passed, and may be heard before the caller's own timer is.
func codeOfReset(code h2.ErrCode, deadline time.Time) codes.Code {
	switch code {
	case h2.CodeRefusedStream:
		return codes.Unavailable
	case h2.CodeCancel:
		if !deadline.IsZero() && !time.Now().Before(deadline) {
			return codes.DeadlineExceeded
		}
		return codes.Canceled
	case h2.CodeEnhanceYourCalm:
		return codes.ResourceExhausted
	case h2.CodeInadequateSecurity:
		return codes.PermissionDenied
	}
	return codes.Internal
}

// end reads the status from trailers.
func (c *call) end(head *responseHead) {
	switch {
	case head.code == "0" && c.assembler.have > 0:
		c.finish(status.New(codes.Internal, "fastgrpc: response ended within a message"))
	case head.code == "0":
		c.finish(nil)
	case head.code == "":
		c.finish(status.New(codes.Internal, "fastgrpc: response without grpc-status"))
	default:
		c.finish(parseStatus(head.code, head.message, head.details))
	}
}

// kept copies the fields that metadata is made of, where somebody wants it.
func (c *call) kept(block *h2.Block) []hpack.HeaderField {
	if !c.keepFields {
		return nil
	}
	var fields []hpack.HeaderField
	if block.Fixed != nil {
		fields = append(fields, block.Fixed.Fields...)
	}
	return append(fields, block.Rest...)
}

func toMetadata(fields []hpack.HeaderField) metadata.MD {
	md := make(metadata.MD, len(fields))
	for _, f := range fields {
		// A value that is no base64 is left out: the call does not depend on it.
		_ = addField(md, f)
	}
	return md
}

// onData cuts content into messages.
func (c *call) onData(data []byte, end bool) {
	conn := c.conn
	chunk := conn.retainable()
	for len(data) > 0 && !c.ended {
		m, rest, done, err := c.assembler.next(data, chunk)
		m.credit = len(data) - len(rest)
		data = rest
		switch {
		case err != nil:
			conn.h2.Consume(&c.h2, m.credit)
			c.fail(status.Convert(err))
		case !done && (!c.streaming || len(c.queue) == 0):
			// Nothing is unread, so the message under way may grow to its limit.
			conn.h2.Consume(&c.h2, m.credit)
		case !done:
			c.heldCredit += m.credit
		case !c.streaming:
			conn.h2.Consume(&c.h2, m.credit)
			c.queue = append(c.queue, m)
			if len(c.queue) > 1 {
				c.fail(status.New(codes.Internal, "fastgrpc: more than one message in a unary response"))
			}
		default:
			m.credit += c.heldCredit
			c.heldCredit = 0
			c.queue = append(c.queue, m)
			wakeOne(c.signal)
		}
	}
	if len(data) > 0 {
		conn.h2.Consume(&c.h2, len(data))
	}
	if end {
		c.finish(status.New(codes.Internal, "fastgrpc: response ended without trailers"))
	}
}
