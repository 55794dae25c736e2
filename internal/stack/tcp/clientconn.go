package tcp

import (
	"net"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"wirelab.dev/internal/stack"
)

// clientConn is one connection of a client. The call that holds it is the only
// one to use it; interrupt and Close may come from elsewhere.
type clientConn struct {
	net.Conn
	parser clientParser
	inbox  *inbox
	// interrupt wakes the call that holds the connection, and spoils the
	// connection: the answer may still come, and no framing can skip it.
	interrupt func()
	// reusable says that the last call ended where the next can begin.
	reusable bool
	// framing is that of the last call, and told that which the dialer knows of.
	framing, told string
}

func newClientConn(raw net.Conn, pooled bool) *clientConn {
	c := &clientConn{Conn: raw, reusable: true}
	c.interrupt = func() { _ = raw.Close() }
	c.inbox = newInbox(raw, &c.parser, pooled)
	return c
}

// send writes a frame from the shelf and puts it back.
func (c *clientConn) send(frame []byte) error {
	_, err := c.Write(frame)
	c.inbox.shelf.put(frame)
	return err
}

// The framings' names as protocols.
const (
	spokenPlain = "tcp-plain"
	spokenCalls = "tcp-calls"
)

// tell tells the dialer of the framing that the peer has answered in, once.
func (c *clientConn) tell(dialer *stack.Dialer) {
	if c.framing != c.told {
		c.told = c.framing
		dialer.Spoke(c.framing)
	}
}

// callPlain makes a call in the plain framing.
func (c *clientConn) callPlain(args, reply any, limit int) error {
	frame, err := appendPlain(c.inbox.shelf.take(), args)
	if err != nil {
		return err
	}
	c.reusable = false
	if err := c.send(frame); err != nil {
		return err
	}
	c.parser.expectPlain(limit)
	said, err := c.inbox.next()
	if err != nil {
		return err
	}
	defer c.inbox.shelf.put(said.body)
	if said.what == plainMessage {
		c.reusable = true
		return unmarshal(said.body, reply)
	}
	failure, err := parseStatus(said.body)
	if err != nil {
		return err
	}
	c.reusable = true
	return failure.Err()
}

// call makes a unary call in the calls framing.
func (c *clientConn) call(head callHead, args, reply any, w wishes) error {
	frame, err := appendCall(c.inbox.shelf.take(), head)
	if err != nil {
		return err
	}
	if frame, err = appendMessage(frame, args); err != nil {
		return err
	}
	c.reusable = false
	if err := c.send(appendHalfClose(frame)); err != nil {
		return err
	}
	a := answer{}
	if err := c.receive(&a, reply, w.maxAnswerBytes); err != nil {
		return err
	}
	c.reusable = true
	w.fulfil(a.header, a.trailer)
	return a.result()
}

// answer is what has come back from a unary call.
type answer struct {
	header, trailer metadata.MD
	answered        bool  // a message has come
	unreadable      error // it is none
	status          *status.Status
}

// receive reads the frames of an answer up to its end.
func (c *clientConn) receive(a *answer, reply any, limit int) error {
	c.inbox.buffer()
	c.parser.expectFrames(limit)
	for {
		said, err := c.inbox.next()
		if err != nil {
			return err
		}
		switch said.what {
		case head:
			a.header, err = parseMetadata(said.body)
		case message:
			if a.answered {
				return errMalformed("a second message answers a unary call")
			}
			a.answered = true
			a.unreadable = unmarshal(said.body, reply)
		case end:
			a.status, a.trailer, err = parseEnd(said.body)
		}
		c.inbox.shelf.put(said.body)
		if err != nil || said.what == end {
			return err
		}
	}
}

func (a *answer) result() error {
	switch {
	case a.status != nil:
		return a.status.Err()
	case !a.answered:
		return status.Error(codes.Internal, "a unary call ended well without an answer")
	default:
		return a.unreadable
	}
}
