package creditrpc

import (
	"bytes"
	"context"
	"net"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"wirelab.dev/rpc/batchio"
	rpccall "wirelab.dev/rpc/call"
	"wirelab.dev/rpc/creditrpc/internal/link"
)

// A conn is the part of a connection that clients and servers share. Its lock, batchio's,
// guards the link and the calls' streams.
type conn struct {
	batchio.Conn
	link  *link.Link
	alive keepAlive // guarded by the lock
	peer  *peer.Peer
	ctx   context.Context // ends with the connection
	end   context.CancelFunc
}

// A role is the part of a connection in which clients and servers differ.
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

// keep returns a message whose data stay valid after the read. For a message that is read soon,
// it retains the read buffer. One that may lie unread for long is copied, so that it takes no
// more memory than the peer's credit accounts for.
func (c *conn) keep(m link.Message, unread bool) message {
	kept := message{Message: m}
	switch {
	case m.Buffer != nil:
	case len(m.Data) == 0:
		kept.Data = nil // an empty slice would keep the read buffer alive
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

// A message is a received message.
type message struct{ link.Message }

func (m *message) release() {
	if m.Buffer != nil {
		m.Buffer.Release()
		m.Buffer = nil
	}
}

// drop releases the messages that nobody will read.
func drop(inbox *rpccall.Queue[message]) {
	for m, ok := inbox.Take(); ok; m, ok = inbox.Take() {
		m.release()
	}
}
