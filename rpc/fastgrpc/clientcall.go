package fastgrpc

import (
	"cmp"
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoregistry"

	rpccall "wirelab.dev/rpc/call"
	"wirelab.dev/rpc/call/wire"
	"wirelab.dev/rpc/fastgrpc/internal/ending"
	"wirelab.dev/rpc/fastgrpc/internal/message"
	"wirelab.dev/rpc/h2"
)

// A clientCall is one attempt of a call on a client. The connection's lock guards the clientCall
// until the attempt has ended. Afterwards only the caller uses the clientCall.
type clientCall struct {
	h2       h2.Stream
	conn     *clientConn
	stream   *clientStream // nil for a unary call
	deadline time.Time     // zero if there is none
	signal   chan struct{} // unary: the call has ended; stream: a message has come, or the call has ended
	drained  chan struct{} // the connection's output has taken all sent data; streams only
	headers  chan struct{} // closed when the response header has come; streams only

	received encoding.Compressor
	inbox    message.Inbox

	wantMetadata                bool // the call keeps the response's metadata
	gotHeader                   bool
	header                      []hpack.HeaderField
	trailer                     []hpack.HeaderField
	headerLength, trailerLength int // bytes on the wire

	end         ending.Ending
	unprocessed bool // the server did not process the call, which may be retried
	committed   bool // no other attempt may follow, for example because the response has begun
	reported    bool // endAttempt has run
	picked      func(balancer.DoneInfo)
	observer    *observer
	ctx         context.Context // the call's context, with the observer's values
}

// reset makes the clientCall of a unary call zero, except for its signal.
func (c *clientCall) reset() {
	c.inbox.Drop()
	*c = clientCall{signal: c.signal}
}

// finish ends the call, unless it has already ended. The lock is held.
func (c *clientCall) finish(end ending.Ending) {
	if c.end.Done() {
		return
	}
	c.end = end
	c.conn.CallEnded(end.Kind == ending.Succeeded)
	c.conn.h2.Release(&c.h2)
	if c.stream == nil {
		// The caller reuses the clientCall as soon as it gets the signal, but h2.Conn still uses
		// it. So handleEndedCalls sends the signal later.
		c.conn.ended = append(c.conn.ended, c)
		return
	}
	rpccall.WakeOne(c.signal)
	rpccall.WakeOne(c.drained)
	rpccall.CloseOnce(c.headers)
}

// fail ends the call and cancels it on the server. The lock is held.
func (c *clientCall) fail(end ending.Ending) {
	if c.end.Done() {
		return
	}
	c.conn.h2.Reset(&c.h2, http2.ErrCodeCancel)
	c.finish(end)
}

// awaitsRetryDecision reports whether an attempt of a stream has failed, and nobody has decided yet
// whether another attempt follows. The connection's lock is held.
func (c *clientCall) awaitsRetryDecision() bool {
	return c.end.Done() && c.end.Kind != ending.Succeeded && !c.committed
}

// responseHead holds the values of a response's header fields that this package uses.
type responseHead struct {
	httpStatus, contentType, encoding string
	code, message, details            string
	fault                             string // says why a field is invalid; "" if all are valid
}

func (h *responseHead) addFields(fields []hpack.HeaderField) {
	for _, f := range fields {
		switch f.Name {
		case ":status":
			h.httpStatus = f.Value
		case wire.FieldContentType:
			h.contentType = f.Value
		case wire.FieldEncoding:
			h.encoding = f.Value
		case wire.FieldStatus:
			h.code = f.Value
		case wire.FieldMessage:
			h.message = f.Value
		case wire.FieldDetails:
			h.details = f.Value
		}
		h.fault = cmp.Or(h.fault, binaryFault(f))
	}
}

// binaryFault says why the binary value of a field is invalid, or returns "".
func binaryFault(f hpack.HeaderField) string {
	if strings.HasSuffix(f.Name, wire.BinarySuffix) {
		if err := wire.AddField(metadata.MD{}, f); err != nil {
			return err.Error()
		}
	}
	return ""
}

// readResponseHead reads a header block. It keeps the result for the fields that repeat.
func readResponseHead(block *h2.Block) (head responseHead) {
	if block.Fixed != nil {
		known, ok := block.Fixed.Memo.(*responseHead)
		if !ok {
			known = new(responseHead)
			known.addFields(block.Fixed.Fields)
			block.Fixed.Memo = known
		}
		head = *known
	}
	head.addFields(block.Rest)
	return head
}

// onHeaders handles a header block: the response's header, its trailers, or both.
func (c *clientCall) onHeaders(block *h2.Block, end bool) {
	if block.TooLarge {
		c.fail(ending.FromBadResponse(codes.Internal, "the response header is longer than this client's limit: see WithMaxHeaderListSize"))
		return
	}
	head := readResponseHead(block)
	if head.fault != "" {
		c.fail(ending.FromBadResponse(codes.Internal, "%s", head.fault))
		return
	}
	if !c.gotHeader {
		if bad := c.checkHeader(&head, end); bad.Done() {
			c.fail(bad)
			return
		}
		c.gotHeader = true
		if !end {
			c.committed = true
			c.header, c.headerLength = c.copyFields(block), block.WireLength
			if c.stream != nil {
				rpccall.CloseOnce(c.headers)
				c.stream.sent.Drop()
			}
		}
	}
	if end {
		c.trailer, c.trailerLength = c.copyFields(block), block.WireLength
		c.finish(c.endingFromTrailers(&head))
	}
}

// checkHeader returns the ending of the call if the response is not gRPC, or else the zero Ending.
func (c *clientCall) checkHeader(head *responseHead, end bool) ending.Ending {
	if head.httpStatus != "200" && head.code == "" {
		n, err := strconv.Atoi(head.httpStatus)
		if err != nil {
			n = http.StatusBadRequest // as in grpc-go
		}
		return ending.FromBadResponse(wire.CodeOfHTTP(n), "unexpected HTTP status %s (%s), want 200", head.httpStatus, http.StatusText(n))
	}
	if _, ok := wire.ContentSubtype(head.contentType); !ok && !(end && head.code != "") {
		return ending.FromBadResponse(codes.Unknown, "the server sent a response with content-type %q, want application/grpc", head.contentType)
	}
	if name := head.encoding; name != "" && name != encoding.Identity {
		// A name without a registered compressor is an error only if a message is compressed.
		c.received = encoding.GetCompressor(name)
	}
	return ending.Ending{}
}

// endingFromTrailers returns the ending of the call, according to the response's trailers.
func (c *clientCall) endingFromTrailers(head *responseHead) ending.Ending {
	if head.code == "" {
		return ending.FromBadResponse(codes.Unknown, "the response ended without the trailer grpc-status")
	}
	end := ending.FromTrailers(head.code, head.message, head.details)
	if end.Kind == ending.Succeeded && c.inbox.Unfinished() {
		return ending.FromBadResponse(codes.Internal, "the response ended in the middle of a message")
	}
	return end
}

// copyFields returns a copy of the block's fields, or nil if the call needs no metadata.
func (c *clientCall) copyFields(block *h2.Block) []hpack.HeaderField {
	if !c.wantMetadata {
		return nil
	}
	var fields []hpack.HeaderField
	if block.Fixed != nil {
		fields = append(fields, block.Fixed.Fields...)
	}
	return append(fields, block.Rest...)
}

func metadataOf(fields []hpack.HeaderField) metadata.MD {
	md := make(metadata.MD, len(fields))
	for _, f := range fields {
		_ = wire.AddField(md, f) // onHeaders has refused invalid fields
	}
	return md
}

func (c *clientCall) onData(data []byte, end bool) {
	if c.end.Done() {
		c.conn.h2.Consume(&c.h2, len(data))
	} else if err := c.inbox.Receive(c.conn.messageSource(), &c.h2, data, c.stream != nil && c.stream.desc.ServerStreams); err != nil {
		c.fail(ending.FromError(err))
	} else if c.stream != nil && c.inbox.Len() > 0 {
		rpccall.WakeOne(c.signal)
	}
	if end {
		c.finish(ending.FromBadResponse(codes.Internal, "the response ended without trailers"))
	}
}

// reportRequestHeader reports the request's header. As in grpc-go, it reports only the program's
// metadata and the user-agent.
func (o *observer) reportRequestHeader(cc *clientConn, info *callInfo) {
	if o != nil {
		md, _ := metadata.FromOutgoingContext(o.ctx)
		o.report(&stats.OutHeader{
			Client: true, FullMethod: o.method, Header: metadata.Join(md, metadata.Pairs(wire.FieldUserAgent, cc.opts.fullUserAgent())),
			Compression: message.CompressorName(info.compressor), Authority: cmp.Or(info.authority, cc.serverName),
			RemoteAddr: cc.peer.Addr, LocalAddr: cc.peer.LocalAddr,
		})
	}
}

// reportHeaderReceived reports the response's header, once, if it has arrived.
func (o *observer) reportHeaderReceived(c *clientCall) {
	if o == nil {
		return
	}
	o.headerOnce.Do(func() {
		if len(c.header) > 0 {
			o.report(&stats.InHeader{
				Client: true, WireLength: c.headerLength, Compression: message.CompressorName(c.received), Header: metadataOf(c.header),
			})
		}
	})
}

// reportResponse passes the response's peer, header and trailer to the call options that asked for
// them.
func (i *callInfo) reportResponse(c *clientCall) {
	if i.Peer != nil {
		*i.Peer = *c.conn.peer
	}
	if i.Header != nil {
		*i.Header = metadataOf(c.header)
	}
	if i.Trailer != nil {
		*i.Trailer = metadataOf(c.trailer)
	}
}

// decodeLoadReport returns the ORCA load report in a trailer, or nil. A balancer that reads load
// reports must import their protobuf type, because this package does not.
func decodeLoadReport(trailer metadata.MD) any {
	values := trailer[wire.FieldLoad]
	if len(values) != 1 {
		return nil
	}
	kind, err := protoregistry.GlobalTypes.FindMessageByName("xds.data.orca.v3.OrcaLoadReport")
	if err != nil {
		return nil
	}
	report := kind.New().Interface()
	if proto.Unmarshal([]byte(values[0]), report) != nil {
		return nil
	}
	return report
}
