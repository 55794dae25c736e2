package fastgrpc

import (
	"cmp"
	"context"
	"net/http"
	"strconv"
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

// A clientCall is one call on a client. Its connection's lock guards it until it has ended;
// afterwards only its caller uses it.
type clientCall struct {
	h2        h2.Stream
	conn      *clientConn
	streaming bool
	deadline  time.Time     // zero if there is none
	signal    chan struct{} // unary: the call ended; stream: a message or the end came
	drained   chan struct{} // all sent data is in the connection's output; streams only
	headers   chan struct{} // closed when the response's header has come; streams only

	received encoding.Compressor
	inbox    message.Inbox

	wantMetadata                bool // keep the response's metadata
	gotHeader                   bool
	header                      []hpack.HeaderField
	trailer                     []hpack.HeaderField
	headerLength, trailerLength int // bytes on the wire

	end         ending.Ending
	unprocessed bool // the server did not process the call, so it may be retried
	answered    bool // a header came before the trailers, so the call may not be retried
	dropped     bool // the balancer ended the call
	decided     bool // no other attempt follows; streams only
	picked      func(balancer.DoneInfo)
	observer    *observer
	ctx         context.Context // the observer's context; streams only
}

// finish ends the call, once, with the lock held.
func (c *clientCall) finish(end ending.Ending) {
	if c.end.Done() {
		return
	}
	c.end = end
	c.conn.CallEnded(end.Kind == ending.Succeeded)
	c.conn.h2.Release(&c.h2)
	if !c.streaming {
		// The caller recycles the call as soon as it gets the signal, but the state machine still
		// uses it: callsEnded sends the signal later.
		c.conn.ended = append(c.conn.ended, c)
		return
	}
	rpccall.WakeOne(c.signal)
	rpccall.WakeOne(c.drained)
	rpccall.CloseOnce(c.headers)
}

// fail ends the call and cancels it on the server, with the lock held.
func (c *clientCall) fail(end ending.Ending) {
	if c.end.Done() {
		return
	}
	c.conn.h2.Reset(&c.h2, http2.ErrCodeCancel)
	c.finish(end)
}

// responseHead holds the header fields of a response that this package interprets.
type responseHead struct {
	httpStatus, contentType, encoding string
	code, message, details            string
}

func (h *responseHead) add(fields []hpack.HeaderField) {
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
	}
}

// readResponseHead returns the known fields of a block. The caller must not change
// the result: it may be the copy kept with the block's cached fields.
func readResponseHead(block *h2.Block) *responseHead {
	head := &emptyHead
	if block.Fixed != nil {
		known, ok := block.Fixed.Memo.(*responseHead)
		if !ok {
			known = new(responseHead)
			known.add(block.Fixed.Fields)
			block.Fixed.Memo = known
		}
		head = known
	}
	if len(block.Rest) > 0 {
		whole := *head
		whole.add(block.Rest)
		head = &whole
	}
	return head
}

// emptyHead saves an allocation for blocks without cached fields.
var emptyHead responseHead

// onHeaders handles the response's header, its trailers, or both in one block.
func (c *clientCall) onHeaders(block *h2.Block, end bool) {
	if block.TooLarge {
		c.fail(ending.BadResponse(codes.Internal, "response header list too large"))
		return
	}
	head := readResponseHead(block)
	if !c.gotHeader {
		if bad := c.checkHeader(head, end); bad.Done() {
			c.fail(bad)
			return
		}
		c.gotHeader = true
		if !end {
			c.answered = true
			c.header, c.headerLength = c.copyFields(block), block.WireLength
			if c.streaming {
				rpccall.CloseOnce(c.headers)
			}
		}
	}
	if end {
		c.trailer, c.trailerLength = c.copyFields(block), block.WireLength
		c.finish(c.endOf(head))
	}
}

// checkHeader returns the ending of a call whose response is not gRPC.
func (c *clientCall) checkHeader(head *responseHead, end bool) ending.Ending {
	if head.httpStatus != "200" && head.code == "" {
		n, _ := strconv.Atoi(head.httpStatus)
		return ending.BadResponse(wire.CodeOfHTTP(n), "unexpected HTTP status %s (%s)", head.httpStatus, http.StatusText(n))
	}
	if _, ok := wire.ContentSubtype(head.contentType); !ok && !(end && head.code != "") {
		return ending.BadResponse(codes.Unknown, "response with content-type %q", head.contentType)
	}
	if name := head.encoding; name != "" && name != encoding.Identity {
		// An unknown name is an error only if a message is compressed.
		c.received = encoding.GetCompressor(name)
	}
	return ending.Ending{}
}

// endOf returns the ending of a call whose response has these trailers.
func (c *clientCall) endOf(head *responseHead) ending.Ending {
	if head.code == "" {
		return ending.BadResponse(codes.Internal, "response without grpc-status")
	}
	end := ending.FromServer(head.code, head.message, head.details)
	if end.Kind == ending.Succeeded && c.inbox.Unfinished() {
		return ending.BadResponse(codes.Internal, "response ended within a message")
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

func toMetadata(fields []hpack.HeaderField) metadata.MD {
	md := make(metadata.MD, len(fields))
	for _, f := range fields {
		// Skip invalid base64: the call does not depend on it.
		_ = wire.AddField(md, f)
	}
	return md
}

func (c *clientCall) onData(data []byte, end bool) {
	if c.end.Done() {
		c.conn.h2.Consume(&c.h2, len(data))
	} else if err := c.inbox.Receive(c.conn.source(), &c.h2, data, c.streaming); err != nil {
		c.fail(ending.Failed(err))
	} else if c.streaming && c.inbox.Len() > 0 {
		rpccall.WakeOne(c.signal)
	}
	if end {
		c.finish(ending.BadResponse(codes.Internal, "response ended without trailers"))
	}
}

// opened reports a request's header. As in grpc-go, that is the program's metadata and the
// user-agent.
func (o *observer) opened(cc *clientConn, info *callInfo) {
	if o != nil {
		md, _ := metadata.FromOutgoingContext(o.ctx)
		o.report(&stats.OutHeader{
			Client: true, FullMethod: o.method, Header: metadata.Join(md, metadata.Pairs(wire.FieldUserAgent, cc.opts.fullUserAgent())),
			Compression: message.CompressorName(info.compressor), Authority: cmp.Or(info.authority, cc.serverName),
			RemoteAddr: cc.peer.Addr, LocalAddr: cc.peer.LocalAddr,
		})
	}
}

// headerReceived reports a response's header once, if it has arrived.
func (o *observer) headerReceived(c *clientCall) {
	if o == nil {
		return
	}
	o.headerOnce.Do(func() {
		if len(c.header) > 0 {
			o.report(&stats.InHeader{
				Client: true, WireLength: c.headerLength, Compression: message.CompressorName(c.received), Header: toMetadata(c.header),
			})
		}
	})
}

// responded passes a response's peer, header and trailer to the call's options and to the
// stats handler.
func (i *callInfo) responded(c *clientCall) {
	if i.Peer != nil {
		*i.Peer = *c.conn.peer
	}
	if i.Header != nil {
		*i.Header = toMetadata(c.header)
	}
	if i.Trailer != nil {
		*i.Trailer = toMetadata(c.trailer)
	}
	c.reportTrailer()
}

func (c *clientCall) reportTrailer() {
	if o := c.observer; o != nil && !o.ended.Load() {
		o.headerReceived(c)
		o.report(&stats.InTrailer{Client: true, WireLength: c.trailerLength, Trailer: toMetadata(c.trailer)})
	}
}

// undecided reports whether a stream's attempt has failed without an answer, before anybody has
// decided on another attempt. The connection's lock is held.
func (c *clientCall) undecided() bool {
	return c.end.Done() && c.end.Kind != ending.Succeeded && !c.answered && !c.decided
}

// reportDone reports the end of an attempt that had a stream to the balancer.
func (c *clientCall) reportDone(err error) {
	if c.picked == nil {
		return
	}
	trailer := toMetadata(c.trailer)
	c.picked(balancer.DoneInfo{
		Err: err, Trailer: trailer, BytesSent: true, BytesReceived: c.gotHeader, ServerLoad: loadReport(trailer),
	})
	c.picked = nil
}

// loadReport returns the ORCA load report in a trailer, or nil. A program whose balancer reads
// such reports links their type into it; this package does not import it.
func loadReport(trailer metadata.MD) any {
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

// initStream prepares a zero call as an attempt of a streaming call.
func (c *clientCall) initStream(maxReceive int) {
	c.streaming, c.wantMetadata = true, true
	c.signal, c.drained, c.headers = make(chan struct{}, 1), make(chan struct{}, 1), make(chan struct{})
	c.inbox.Init(maxReceive)
	c.h2.Owner = c
}
