package creditrpc

import (
	"bytes"
	"context"
	"net"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"wirelab.dev/rpc/batchio"
	"wirelab.dev/rpc/creditrpc/internal/link"
)

// conn is what connections of clients and servers have in common. Its lock, batchio's,
// guards the link and the calls' streams.
type conn struct {
	batchio.Conn
	link  *link.Link
	alive keepAlive
	peer  *peer.Peer
	ctx   context.Context // ends with the connection
	end   context.CancelFunc
}

// role is what clients and servers do differently on a connection.
type role interface {
	batchio.Role
	link.Handler
}

func (c *conn) init(r role, nc net.Conn, auth credentials.AuthInfo, cfg link.Config) {
	c.peer = &peer.Peer{Addr: nc.RemoteAddr(), LocalAddr: nc.LocalAddr(), AuthInfo: auth}
	c.ctx, c.end = context.WithCancel(context.Background())
	c.Init(nc)
	cfg.MinReference = c.MinReference()
	c.link = link.New(cfg, r)
	c.Attach(c.link, r)
}

// keep returns a message whose data outlive the read buffer: a short-lived one by holding on to
// that buffer, one that may lie unread for long by a copy, which takes no more memory than the
// peer's credit accounts for.
func (c *conn) keep(m link.Message, unread bool) message {
	kept := message{Message: m}
	switch {
	case m.Buffer != nil:
	case len(m.Data) == 0:
		kept.Data = nil // which would hold on to what was read with it
	case unread && batchio.BufferSize(len(m.Data)) > 2*len(m.Data):
		kept.Data = bytes.Clone(m.Data)
	case unread:
		kept.Buffer = batchio.NewBuffer(len(m.Data))
		copy(kept.Buffer.Data, m.Data)
		kept.Data = kept.Buffer.Data
	default:
		kept.Buffer = c.Chunk()
		kept.Buffer.Retain()
	}
	return kept
}

// message is one that was received.
type message struct{ link.Message }

func (m *message) release() {
	if m.Buffer != nil {
		m.Buffer.Release()
		m.Buffer = nil
	}
}

// inbox holds the messages that a call has received and not read, under the connection's lock.
type inbox struct {
	first  message // most calls have one
	has    bool
	others []message
}

func (b *inbox) put(m message) {
	if !b.has && len(b.others) == 0 {
		b.first, b.has = m, true
		return
	}
	b.others = append(b.others, m)
}

func (b *inbox) take() (m message, ok bool) {
	switch {
	case b.has:
		m, b.first, b.has = b.first, message{}, false
		return m, true
	case len(b.others) > 0:
		m, b.others[0] = b.others[0], message{}
		b.others = b.others[1:]
		return m, true
	}
	return m, false
}

// drop releases what nobody will read.
func (b *inbox) drop() {
	for m, ok := b.take(); ok; m, ok = b.take() {
		m.release()
	}
}
