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

// serverPlayer is a server of a real stack and workload, with the faults that its fields set.
type serverPlayer struct {
	Variant       string `json:"variant"`
	Workload      string `json:"workload"`
	RequestBytes  int    `json:"request_bytes"`
	ResponseBytes int    `json:"response_bytes"`

	FailEvery  int64 `json:"fail_every,omitempty"`  // every Nth call fails at once; 0 means none
	SpoilEvery int64 `json:"spoil_every,omitempty"` // every Nth answer has one wrong bit
	CutEvery   int64 `json:"cut_every,omitempty"`   // every Nth answer lacks its last byte
	// Work is the time that each call sleeps. If WorkFor is not 0, calls sleep only within that
	// time after the first call. If RampFor is not 0, calls first sleep for twice Work; within
	// RampFor, this time falls to Work.
	Work    time.Duration `json:"work,omitempty"`
	WorkFor time.Duration `json:"work_for,omitempty"`
	// WorkEvery, if not 0, makes only every Nth call sleep.
	WorkEvery int64         `json:"work_every,omitempty"`
	RampFor   time.Duration `json:"ramp_for,omitempty"`
}

func (s *serverPlayer) play(ctx context.Context, ready func(string)) error {
	answering := worker.Workload{Name: s.Workload, RequestBytes: s.RequestBytes, ResponseBytes: s.ResponseBytes}
	server, err := body.NewServer(s.Variant, answering, func(to grpc.ServiceRegistrar) grpc.ServiceRegistrar {
		return &faultyRegistrar{serverPlayer: s, to: to}
	})
	if err != nil {
		return err
	}
	address, err := server.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		return err
	}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve() }) // ends when the server is closed
	ready(address.String())
	<-ctx.Done()
	err = server.Close()
	serving.Wait()
	return err
}

// A faultyRegistrar registers services, and adds the faults of a serverPlayer to their handlers.
type faultyRegistrar struct {
	*serverPlayer
	to    grpc.ServiceRegistrar
	calls atomic.Int64
	first atomic.Int64 // when the first call began, in Unix nanoseconds
}

// RegisterService registers the service, and wraps its handlers.
func (t *faultyRegistrar) RegisterService(desc *grpc.ServiceDesc, service any) {
	wrapped := *desc
	wrapped.Methods = nil
	for _, method := range desc.Methods {
		honest := method.Handler
		method.Handler = func(service any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
			number := t.calls.Add(1)
			if err := t.failOrSleep(number); err != nil {
				return nil, err
			}
			answer, err := honest(service, ctx, decode, interceptor)
			t.spoilAnswer(number, answer)
			return answer, err
		}
		wrapped.Methods = append(wrapped.Methods, method)
	}
	t.to.RegisterService(&wrapped, service)
}

var errOrderedFailure = status.Error(codes.Unavailable, "the self-test makes this call fail")

func (t *faultyRegistrar) failOrSleep(number int64) error {
	now := time.Now().UnixNano()
	t.first.CompareAndSwap(0, now)
	if t.FailEvery > 0 && number%t.FailEvery == 0 {
		return errOrderedFailure
	}
	if t.WorkEvery > 0 && number%t.WorkEvery != 0 {
		return nil
	}
	if work := t.sleepTime(time.Duration(now - t.first.Load())); work > 0 {
		time.Sleep(work)
	}
	return nil
}

// sleepTime returns how long a call must sleep. since is the time since the first call.
func (t *faultyRegistrar) sleepTime(since time.Duration) time.Duration {
	switch {
	case t.WorkFor > 0 && since >= t.WorkFor:
		return 0
	case t.RampFor > since:
		return t.Work + time.Duration(float64(t.Work)*float64(t.RampFor-since)/float64(t.RampFor))
	}
	return t.Work
}

// spoilAnswer changes the answer of a call whose number is a multiple of SpoilEvery or CutEvery.
func (t *faultyRegistrar) spoilAnswer(number int64, answer any) {
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

// earlyAnswerPlayer is a server for echo over rest. If Lie is true, it does not wait for the end of
// a request: after the id, it answers with the data of an earlier request.
type earlyAnswerPlayer struct {
	Lie bool `json:"lie"`

	known atomic.Pointer[[]byte] // the data of an earlier request
}

func (e *earlyAnswerPlayer) play(ctx context.Context, ready func(string)) error {
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

// ServeHTTP answers a call of echo.
func (e *earlyAnswerPlayer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer, err := e.answer(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
	w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
	_, _ = w.Write(answer)
}

func (e *earlyAnswerPlayer) answer(body io.Reader) ([]byte, error) {
	if known := e.known.Load(); known != nil {
		var head [16]byte
		if _, err := io.ReadFull(body, head[:]); err != nil {
			return nil, err
		}
		id, err := readID(head[:])
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

// readID reads an echo's id, which is at the beginning: field 1, a varint.
func readID(head []byte) (uint64, error) {
	number, kind, tag := protowire.ConsumeTag(head)
	if number != 1 || kind != protowire.VarintType {
		return 0, errors.New("the payload does not begin with an id (field 1, a varint)")
	}
	id, n := protowire.ConsumeVarint(head[tag:])
	return id, protowire.ParseError(min(n, 0))
}

// proxyPlayer is a proxy between client and server, with the faults that its fields set. Without
// faults, it forwards all bytes unchanged.
type proxyPlayer struct {
	To string `json:"to"`
	// ResetAfter is the time after the first connection when the proxy resets all connections.
	ResetAfter time.Duration `json:"reset_after,omitempty"`
	// ReceiveBytes is the size of the receive buffer for client data. 0 means the default.
	ReceiveBytes int `json:"receive_bytes,omitempty"`
	// SendBytes is the size of the send buffer for data to the client. 0 means the default.
	SendBytes int `json:"send_bytes,omitempty"`
	// Hold is a period. The proxy forwards answers only at multiples of this period.
	Hold time.Duration `json:"hold,omitempty"`
	// Split sends each answer in two writes. The kernel then sends the second part only after the
	// first part was acknowledged (RFC 896).
	Split bool `json:"split,omitempty"`
}

func (p *proxyPlayer) play(ctx context.Context, ready func(string)) error {
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
	passing := &proxyConnections{proxyPlayer: p}
	for {
		conn, err := listener.Accept()
		if err != nil {
			passing.resetAll()
			passing.running.Wait()
			return nil // ctx has ended, so the listener is closed
		}
		passing.addConnection(conn.(*net.TCPConn))
	}
}

// proxyConnections holds the open connections of a proxy.
type proxyConnections struct {
	*proxyPlayer
	guard   sync.Mutex
	conns   []*net.TCPConn
	running sync.WaitGroup
	once    sync.Once
}

func (p *proxyConnections) addConnection(client *net.TCPConn) {
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
		p.once.Do(func() { time.AfterFunc(p.ResetAfter, p.resetAll) })
	}
	if p.SendBytes > 0 {
		_ = client.SetWriteBuffer(p.SendBytes)
	}
	answers := io.Writer(client)
	if p.Hold > 0 {
		answers = batchWriter{client, p.Hold}
	}
	if p.Split {
		_ = client.SetNoDelay(false)
		answers = splitWriter{client}
	}
	// Both copies end when either connection is closed.
	p.running.Go(func() { copyUntilClosed(server, client) })
	p.running.Go(func() { copyUntilClosed(answers, server); _ = client.Close() })
}

func copyUntilClosed(to io.Writer, from *net.TCPConn) {
	_, _ = io.Copy(to, from)
	_ = from.Close()
	if conn, is := to.(*net.TCPConn); is {
		_ = conn.Close()
	}
}

// resetAll closes all connections. Client and server each see a connection reset.
func (p *proxyConnections) resetAll() {
	p.guard.Lock()
	defer p.guard.Unlock()
	for _, conn := range p.conns {
		_ = conn.SetLinger(0)
		_ = conn.Close()
	}
	p.conns = nil
}

type splitWriter struct{ to net.Conn }

func (s splitWriter) Write(b []byte) (int, error) {
	if len(b) < 2 {
		return s.to.Write(b)
	}
	if n, err := s.to.Write(b[:1]); err != nil {
		return n, err
	}
	n, err := s.to.Write(b[1:])
	return n + 1, err
}

// A batchWriter writes only at multiples of its period.
type batchWriter struct {
	to     net.Conn
	period time.Duration
}

func (h batchWriter) Write(b []byte) (int, error) {
	time.Sleep(h.period - time.Duration(time.Now().UnixNano()%int64(h.period)))
	return h.to.Write(b)
}
