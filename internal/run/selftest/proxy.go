package selftest

import (
	"context"
	"io"
	"net"
	"sync"
	"syscall"
	"time"
)

// proxy stands between client and server, with the faults of its fields. Without any it passes
// on all bytes unchanged.
type proxy struct {
	To string `json:"to"`
	// ResetAfter resets all connections once, at this time after the first was accepted.
	ResetAfter time.Duration `json:"reset_after,omitempty"`
	// ReceiveBytes is the receive buffer of its client's side. 0: the kernel's.
	ReceiveBytes int `json:"receive_bytes,omitempty"`
	// SendBytes is the send buffer of the same side. 0: the kernel's.
	SendBytes int `json:"send_bytes,omitempty"`
	// Hold keeps answers until the next multiple of it.
	Hold time.Duration `json:"hold,omitempty"`
	// Split sends each answer in two writes, and lets the kernel wait for the
	// acknowledgement of the first before it sends the second (RFC 896).
	Split bool `json:"split,omitempty"`
}

func (p *proxy) play(ctx context.Context, ready func(string)) error {
	config := net.ListenConfig{}
	if p.ReceiveBytes > 0 {
		config.Control = func(_, _ string, raw syscall.RawConn) error { return setReceiveBuffer(raw, p.ReceiveBytes) }
	}
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	ready(listener.Addr().String())
	defer context.AfterFunc(ctx, func() { _ = listener.Close() })()
	passing := &passing{proxy: p}
	for {
		conn, err := listener.Accept()
		if err != nil {
			passing.reset()
			passing.running.Wait()
			return nil // the listener was closed because the play is over
		}
		passing.pass(conn.(*net.TCPConn))
	}
}

// passing holds the connections of a proxy.
type passing struct {
	*proxy
	guard   sync.Mutex
	conns   []*net.TCPConn
	running sync.WaitGroup
	once    sync.Once
}

func (p *passing) pass(client *net.TCPConn) {
	dialled, err := net.Dial("tcp", p.To)
	if err != nil {
		_ = client.Close()
		return
	}
	server := dialled.(*net.TCPConn)
	p.guard.Lock()
	p.conns = append(p.conns, client, server)
	p.guard.Unlock()
	if p.ResetAfter > 0 {
		p.once.Do(func() { time.AfterFunc(p.ResetAfter, p.reset) })
	}
	if p.SendBytes > 0 {
		_ = client.SetWriteBuffer(p.SendBytes)
	}
	answers := io.Writer(client)
	if p.Hold > 0 {
		answers = holding{client, p.Hold}
	}
	if p.Split {
		_ = client.SetNoDelay(false)
		answers = splitting{client}
	}
	p.running.Go(func() { pump(server, client) }) // both end when either side is closed
	p.running.Go(func() { pump(answers, server); _ = client.Close() })
}

func pump(to io.Writer, from *net.TCPConn) {
	_, _ = io.Copy(to, from)
	_ = from.Close()
	if conn, is := to.(*net.TCPConn); is {
		_ = conn.Close()
	}
}

// reset closes all connections so that both ends see a reset.
func (p *passing) reset() {
	p.guard.Lock()
	defer p.guard.Unlock()
	for _, conn := range p.conns {
		_ = conn.SetLinger(0)
		_ = conn.Close()
	}
	p.conns = nil
}

type splitting struct{ to net.Conn }

func (s splitting) Write(b []byte) (int, error) {
	if len(b) < 2 {
		return s.to.Write(b)
	}
	if n, err := s.to.Write(b[:1]); err != nil {
		return n, err
	}
	n, err := s.to.Write(b[1:])
	return n + 1, err
}

// holding writes at multiples of its period only.
type holding struct {
	to     net.Conn
	period time.Duration
}

func (h holding) Write(b []byte) (int, error) {
	time.Sleep(h.period - time.Duration(time.Now().UnixNano()%int64(h.period)))
	return h.to.Write(b)
}
