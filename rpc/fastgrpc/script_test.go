package fastgrpc

import (
	"net"
	"sync"
	"time"
)

// tee keeps what a client's connection reads and writes.
type tee struct {
	net.Conn
	mu      sync.Mutex
	in, out []byte
}

func (c *tee) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.in = append(c.in, p[:n]...)
	return n, err
}

func (c *tee) Write(p []byte) (int, error) {
	c.mu.Lock()
	c.out = append(c.out, p...)
	c.mu.Unlock()
	return c.Conn.Write(p)
}

// scriptConn plays recorded bytes to one end.
type scriptConn struct {
	mu      sync.Mutex
	changed *sync.Cond
	bytes   []byte // bytes to read, up to the cut
	read    int
	free    int   // how much of it may be read now
	end     error // error of the read after them, once mayEnd
	mayEnd  bool
	closed  bool
	written []byte
	onWrite func(c *scriptConn)
}

func newScript(recorded []byte, end error, onWrite func(*scriptConn)) *scriptConn {
	c := &scriptConn{bytes: recorded, end: end, onWrite: onWrite}
	c.changed = sync.NewCond(&c.mu)
	return c
}

func (c *scriptConn) Read(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		switch free := min(c.free, len(c.bytes)); {
		case c.closed:
			return 0, net.ErrClosed
		case c.read < free:
			n := copy(p, c.bytes[c.read:free])
			c.read += n
			return n, nil
		case c.read == len(c.bytes) && c.mayEnd:
			return 0, c.end
		}
		c.changed.Wait()
	}
}

func (c *scriptConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return 0, net.ErrClosed
	}
	c.written = append(c.written, p...)
	if c.onWrite != nil {
		c.onWrite(c)
		c.changed.Broadcast()
	}
	return len(p), nil
}

func (c *scriptConn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.changed.Broadcast()
	return nil
}

// cut lets the end be read.
func (c *scriptConn) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mayEnd = true
	c.changed.Broadcast()
}

func (c *scriptConn) waitClosed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.closed {
		c.changed.Wait()
	}
}

func (*scriptConn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (*scriptConn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (*scriptConn) SetDeadline(time.Time) error      { return nil }
func (*scriptConn) SetReadDeadline(time.Time) error  { return nil }
func (*scriptConn) SetWriteDeadline(time.Time) error { return nil }

// oneConnListener accepts one connection.
type oneConnListener struct {
	conn   net.Conn
	once   sync.Once
	closed chan struct{}
	close  sync.Once
}

func (l *oneConnListener) Accept() (nc net.Conn, err error) {
	l.once.Do(func() { nc = l.conn })
	if nc != nil {
		return nc, nil
	}
	<-l.closed
	return nil, net.ErrClosed
}

func (l *oneConnListener) Close() error {
	l.close.Do(func() { close(l.closed) })
	return nil
}

func (*oneConnListener) Addr() net.Addr { return &net.TCPAddr{} }
