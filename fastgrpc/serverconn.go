package fastgrpc

import (
	"context"
	"net"
	"time"

	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"wirelab.dev/fastgrpc/internal/h2"
)

// serverConn is one client's connection.
type serverConn struct {
	transport
	server *Server
	peer   *peer.Peer
	ctx    context.Context // ends with the connection
	end    context.CancelFunc
	ready  []*serverStream // calls to run, queued under the lock by the reader
	keep   serverKeepalive
}

var _ side = (*serverConn)(nil)

func newServerConn(s *Server, nc net.Conn, p *peer.Peer) *serverConn {
	c := &serverConn{server: s, peer: p}
	c.ctx, c.end = context.WithCancel(s.baseContext())
	if h := s.opts.stats; h != nil {
		c.ctx = h.TagConn(c.ctx, &stats.ConnTagInfo{RemoteAddr: p.Addr, LocalAddr: p.LocalAddr})
		h.HandleConn(c.ctx, &stats.ConnBegin{})
	}
	c.transport.init(nc, c, s.opts.h2Config())
	c.onTeardown = c.teardown
	return c
}

func (c *serverConn) start() {
	c.mu.Lock()
	c.keep.start(c)
	c.mu.Unlock()
	c.transport.start()
}

func (c *serverConn) teardown() {
	c.end()
	if h := c.server.opts.stats; h != nil {
		h.HandleConn(c.ctx, &stats.ConnEnd{})
	}
	c.server.forget(c)
}

// okHeaders opens a response and okTrailers ends it: the same few bytes each time.
var (
	okHeaders = h2.NewFixedFields(
		hpack.HeaderField{Name: ":status", Value: "200"},
		hpack.HeaderField{Name: fieldContentType, Value: contentTypePrefix})
	okTrailers = h2.NewFixedFields(hpack.HeaderField{Name: fieldStatus, Value: "0"})
	noFields   = h2.NewFixedFields()
)

// OnOpen makes the stream of a new request.
func (c *serverConn) OnOpen() *h2.Stream {
	s := &serverStream{conn: c}
	s.callContext.stream = s
	s.h2.Owner = s
	c.counters.callsStarted++
	c.keep.busy()
	return &s.h2
}

// OnHeaders begins a call, or ends its request where they are trailers.
func (c *serverConn) OnHeaders(hs *h2.Stream, block *h2.Block, end bool) {
	s := hs.Owner.(*serverStream)
	if s.begun {
		s.requestEnded()
		return
	}
	s.begun = true
	if !s.begin(block) {
		if end {
			s.requestEnded()
		}
		return
	}
	if s.method.stream != nil {
		s.signal = make(chan struct{}, 1)
		s.drained = make(chan struct{}, 1)
		c.ready = append(c.ready, s)
	}
	if end {
		s.requestEnded()
	}
}

// OnData adds to a call's messages.
func (c *serverConn) OnData(hs *h2.Stream, data []byte, end bool) {
	s := hs.Owner.(*serverStream)
	if s.method == nil {
		c.h2.Consume(hs, len(data))
	} else {
		s.receive(data)
	}
	if end {
		s.requestEnded()
	}
}

// OnReset cancels a call.
func (c *serverConn) OnReset(hs *h2.Stream, _ h2.Reset) {
	hs.Owner.(*serverStream).abort(context.Canceled)
}

// OnDrained lets a stream's sender go on.
func (c *serverConn) OnDrained(hs *h2.Stream) { wakeOne(hs.Owner.(*serverStream).drained) }

// OnGoAway needs no answer: the client opens no more streams.
func (c *serverConn) OnGoAway(h2.ErrCode, []byte) {}

// OnPing enforces the policy on keepalive pings.
func (c *serverConn) OnPing(now time.Duration) *h2.ConnError {
	return c.keep.onPing(now, c.h2.Activity, c.h2.OpenStreams())
}

// OnPong ends a wait for an answer.
func (c *serverConn) OnPong(data [8]byte) {
	if c.keep.onPong(data) {
		c.h2.GoAway(h2.CodeNo, "")
	}
}

func (c *serverConn) fed() {
	if c.h2.Occupied() == 0 {
		if c.keep.idleSince == 0 {
			c.keep.free()
		}
		c.closeIfDrained()
	}
}

func (c *serverConn) settle() {
	c.server.workers.push(c.ready)
	clear(c.ready)
	c.ready = c.ready[:0]
}

func (c *serverConn) lost(error) {
	c.keep.stop()
	c.h2.DropStreams(func(hs *h2.Stream) { hs.Owner.(*serverStream).abort(context.Canceled) })
}

// drain begins the two steps of a graceful end: a GOAWAY that still accepts every
// stream, and, when the ping behind it comes back, the one that names the last.
func (c *serverConn) drain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil || c.keep.drainAt > 0 {
		return
	}
	c.keep.beginDrain(time.Since(epoch))
	c.keep.timer.Reset(longestDrainPingWait)
	c.flush()
}

// closeIfDrained closes a draining connection whose last stream has gone.
func (c *serverConn) closeIfDrained() {
	if c.keep.drained && c.h2.Occupied() == 0 {
		c.closeLocked(errServerStopping)
	}
}

// release ends the server's use of a stream, with the lock held.
func (c *serverConn) release(s *serverStream) {
	s.dropMessages()
	c.h2.Release(&s.h2)
	c.fed()
}

// refuse answers a request that never becomes a call.
func (c *serverConn) refuse(s *serverStream, code codes.Code, text string) {
	fields := statusFields(status.New(code, text))
	c.h2.SendTrailers(&s.h2, okHeaders, fields)
	c.release(s)
}

// httpAnswer is what a request that is not gRPC at all is answered, when it ends.
type httpAnswer struct{ status, text string }

func (c *serverConn) answerHTTP(s *serverStream) {
	c.h2.SendHeaders(&s.h2, noFields, []hpack.HeaderField{
		{Name: ":status", Value: s.http.status},
		{Name: fieldContentType, Value: "text/plain; charset=utf-8"},
	})
	c.h2.SendData(&s.h2, h2.Payload{Data: []byte(s.http.text)}, true)
	c.release(s)
}

func wakeOne(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
