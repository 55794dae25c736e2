package selftest

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"wirelab.dev/internal/run/worker"
	"wirelab.dev/internal/run/worker/body"
	"wirelab.dev/internal/wire/workload/echo/echopb"
)

// serve is another server: a real stack with a real workload, whose handlers follow these fields.
// With zero fields they do nothing special.
type serve struct {
	Variant       string `json:"variant"`
	Workload      string `json:"workload"`
	RequestBytes  int    `json:"request_bytes"`
	ResponseBytes int    `json:"response_bytes"`

	FailEvery  int64 `json:"fail_every,omitempty"`  // each Nth call fails at once
	SpoilEvery int64 `json:"spoil_every,omitempty"` // each Nth answer differs in one bit
	CutEvery   int64 `json:"cut_every,omitempty"`   // each Nth answer is a byte short
	// Work is the time that each call sleeps in place of work, until WorkFor after the first call
	// (0: always). With RampFor it begins at twice Work, and falls to Work within RampFor.
	Work    time.Duration `json:"work,omitempty"`
	WorkFor time.Duration `json:"work_for,omitempty"`
	// WorkEvery leaves the work out of all but each Nth call.
	WorkEvery int64         `json:"work_every,omitempty"`
	RampFor   time.Duration `json:"ramp_for,omitempty"`
}

func (s *serve) play(ctx context.Context, ready func(string)) error {
	answering := worker.Workload{Name: s.Workload, RequestBytes: s.RequestBytes, ResponseBytes: s.ResponseBytes}
	server, err := body.NewServer(s.Variant, answering, func(to grpc.ServiceRegistrar) grpc.ServiceRegistrar {
		return &instructed{serve: s, to: to}
	})
	if err != nil {
		return err
	}
	address, err := server.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		return err
	}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve() }) // ends with the server
	ready(address.String())
	<-ctx.Done()
	err = server.Close()
	serving.Wait()
	return err
}

// An instructed registrar registers services whose handlers do as serve says.
type instructed struct {
	*serve
	to    grpc.ServiceRegistrar
	calls atomic.Int64
	first atomic.Int64 // instant of the first call, in Unix nanoseconds
}

// RegisterService registers the service with its handlers wrapped.
func (t *instructed) RegisterService(desc *grpc.ServiceDesc, service any) {
	wrapped := *desc
	wrapped.Methods = nil
	for _, method := range desc.Methods {
		honest := method.Handler
		method.Handler = func(service any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
			number := t.calls.Add(1)
			if err := t.before(number); err != nil {
				return nil, err
			}
			answer, err := honest(service, ctx, decode, interceptor)
			t.spoil(number, answer)
			return answer, err
		}
		wrapped.Methods = append(wrapped.Methods, method)
	}
	t.to.RegisterService(&wrapped, service)
}

var errInstructed = status.Error(codes.Unavailable, "this server fails as it was told to")

func (t *instructed) before(number int64) error {
	now := time.Now().UnixNano()
	t.first.CompareAndSwap(0, now)
	if t.FailEvery > 0 && number%t.FailEvery == 0 {
		return errInstructed
	}
	if t.WorkEvery > 0 && number%t.WorkEvery != 0 {
		return nil
	}
	if work := t.work(time.Duration(now - t.first.Load())); work > 0 {
		time.Sleep(work)
	}
	return nil
}

// work returns how long a call sleeps that comes this long after the first one.
func (t *instructed) work(since time.Duration) time.Duration {
	switch {
	case t.WorkFor > 0 && since >= t.WorkFor:
		return 0
	case t.RampFor > since:
		return t.Work + time.Duration(float64(t.Work)*float64(t.RampFor-since)/float64(t.RampFor))
	}
	return t.Work
}

// spoil changes an answer of echo. The answer's data belongs to this call alone.
func (t *instructed) spoil(number int64, answer any) {
	payload, is := answer.(*echopb.Payload)
	if !is || len(payload.GetData()) == 0 {
		return
	}
	if t.SpoilEvery > 0 && number%t.SpoilEvery == 0 {
		payload.Data[len(payload.Data)/2] ^= 1
	}
	if t.CutEvery > 0 && number%t.CutEvery == 0 {
		payload.Data = payload.Data[:len(payload.Data)-1]
	}
}

// early is another server for echo over rest. As a lie it answers as soon as it has read the id,
// with the data of an earlier request.
type early struct {
	Lie bool `json:"lie"`

	known atomic.Pointer[[]byte] // data of an earlier request
}

func (e *early) play(ctx context.Context, ready func(string)) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: e}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	ready(listener.Addr().String())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// ServeHTTP answers an echo.
func (e *early) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer, err := e.answer(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
	w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
	_, _ = w.Write(answer)
}

func (e *early) answer(body io.Reader) ([]byte, error) {
	if known := e.known.Load(); known != nil {
		var head [16]byte
		if _, err := io.ReadFull(body, head[:]); err != nil {
			return nil, err
		}
		id, err := idOf(head[:])
		if err != nil {
			return nil, err
		}
		return proto.Marshal(&echopb.Payload{Id: id, Data: *known})
	}
	whole, err := io.ReadAll(body)
	if err != nil {
		return nil, err
	}
	var in echopb.Payload
	if err := proto.Unmarshal(whole, &in); err != nil {
		return nil, err
	}
	if e.Lie {
		e.known.Store(&in.Data)
	}
	return proto.Marshal(&in)
}

// idOf reads the id of an echo from its beginning: field 1, a varint.
func idOf(head []byte) (uint64, error) {
	number, kind, tag := protowire.ConsumeTag(head)
	if number != 1 || kind != protowire.VarintType {
		return 0, errors.New("a payload begins with its id")
	}
	id, n := protowire.ConsumeVarint(head[tag:])
	return id, protowire.ParseError(min(n, 0))
}

// proxy stands between client and server, with the faults of its fields. Without any it passes
// on all bytes unchanged.
type proxy struct {
	To string `json:"to"`
	// ResetAfter resets all connections once, at this time after the first was accepted.
	ResetAfter time.Duration `json:"reset_after,omitempty"`
	// ReceiveBytes is the size of the receive buffer towards the client. 0: the kernel's default.
	ReceiveBytes int `json:"receive_bytes,omitempty"`
	// SendBytes is the size of the send buffer towards the client. 0: the kernel's default.
	SendBytes int `json:"send_bytes,omitempty"`
	// Hold delays answers until the next multiple of this period.
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

// A holding writer writes only at multiples of its period.
type holding struct {
	to     net.Conn
	period time.Duration
}

func (h holding) Write(b []byte) (int, error) {
	time.Sleep(h.period - time.Duration(time.Now().UnixNano()%int64(h.period)))
	return h.to.Write(b)
}
