package kitexstack

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cloudwego/kitex/client"
	"github.com/cloudwego/kitex/pkg/remote"
	kitexstatus "github.com/cloudwego/kitex/pkg/remote/trans/nphttp2/status"
	"github.com/cloudwego/kitex/pkg/serviceinfo"
	"github.com/cloudwego/kitex/pkg/streaming"
	"github.com/cloudwego/kitex/transport"
	"github.com/cloudwego/netpoll"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/stack/rivalstack"
	"wirelab.dev/peers/rivals/carry"
)

const connectTimeout = 10 * time.Second

// NewClient implements stack.Stack.
func (s Stack) NewClient(ctx context.Context, v scenario.Variant, target stack.Target) (stack.Client, error) {
	security, err := s.Security(v)
	if err != nil {
		return nil, err
	}
	connector, err := stack.NewConnector(s, v, security, target, "")
	if err != nil {
		return nil, err
	}
	return connector.NewClient(ctx, func(ctx context.Context, clock *stack.FirstByte) (stack.Client, error) {
		opened := &session{mux: rivalstack.Multiplexes(v), address: target.Address}
		one, err := carry.New(ctx, connector, carry.Wire{Stack: s, Variant: v}, clock, func(ctx context.Context) (carry.Session, error) {
			opened.dialer = &dialer{counts: connector.Dialer}
			if err := opened.dialer.open(ctx, target.Address); err != nil {
				return nil, err
			}
			protocol := "h2"
			if opened.mux {
				protocol = "ttheader"
			}
			connector.Dialer.UsedProtocol(protocol)
			return opened, nil
		})
		if err != nil {
			return nil, err
		}
		return reporting{one, opened.dialer}, nil
	})
}

// reporting is a client that reports the traffic of sockets that netpoll reads.
type reporting struct {
	stack.Client
	dialer *dialer
}

// Traffic implements stack.TrafficReporter.
func (r reporting) Traffic() (conn.Traffic, bool) { return r.dialer.traffic() }

// dialer opens connections of netpoll, as kitex's own does, and counts them. Its first connection is
// open before kitex asks for one.
type dialer struct {
	counts *conn.Dialer

	mu     sync.Mutex
	closed bool
	ahead  netpoll.Connection
	opened map[netpoll.Connection]struct{}
}

// open opens the connection that kitex will get first.
func (d *dialer) open(ctx context.Context, address string) error {
	timeout := connectTimeout
	if deadline, limited := ctx.Deadline(); limited {
		timeout = min(timeout, time.Until(deadline))
	}
	opened, err := d.dial("tcp", address, timeout)
	d.ahead = opened
	return err
}

// DialTimeout implements remote.Dialer.
func (d *dialer) DialTimeout(network, address string, timeout time.Duration) (net.Conn, error) {
	d.mu.Lock()
	ahead, closed := d.ahead, d.closed
	d.ahead = nil
	d.mu.Unlock()
	if closed {
		return nil, net.ErrClosed
	}
	if ahead != nil && ahead.IsActive() {
		return ahead, nil
	}
	return d.dial(network, address, timeout)
}

func (d *dialer) dial(network, address string, timeout time.Duration) (netpoll.Connection, error) {
	raw, err := netpoll.DialConnection(network, address, timeout)
	if err != nil {
		d.counts.Failed()
		return nil, err
	}
	if name := d.counts.Socket.Congestion; name != "" {
		if err := unix.SetsockoptString(descriptor(raw), unix.IPPROTO_TCP, unix.TCP_CONGESTION, name); err != nil {
			return nil, errors.Join(err, raw.Close())
		}
	}
	closed := d.counts.Opened()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.opened == nil {
		d.opened = map[netpoll.Connection]struct{}{}
	}
	d.opened[raw] = struct{}{}
	return raw, raw.AddCloseCallback(func(netpoll.Connection) error {
		closed()
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.opened, raw)
		return nil
	})
}

func descriptor(c netpoll.Connection) int { return c.(netpoll.Conn).Fd() }

// traffic sums the traffic of the open connections.
func (d *dialer) traffic() (sum conn.Traffic, known bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for one := range d.opened {
		if t, ok := conn.SocketTraffic(descriptor(one)); ok {
			sum, known = sum.Plus(t), true
		}
	}
	return sum, known
}

// session has a kitex client for each service. Each has one connection, and opens it again if it is
// lost.
type session struct {
	mux     bool
	address string
	dialer  *dialer

	services sync.Map // *service by name
	mu       sync.Mutex
	closed   atomic.Bool
}

// A service is a kitex client of one service.
type service struct {
	client  client.Client
	streams sync.Map // the serviceinfo.MethodInfo of streaming methods, by name

	// Two first calls at once would make kitex open two connections, and drop one.
	connected atomic.Bool
	first     sync.Mutex // held during the first call
}

// begin waits until no first call is under way. The caller must call end with the call's error.
func (s *service) begin() (end func(error)) {
	if s.connected.Load() {
		return func(error) {}
	}
	s.first.Lock()
	if s.connected.Load() {
		s.first.Unlock()
		return func(error) {}
	}
	return func(err error) {
		if err == nil {
			s.connected.Store(true)
		}
		s.first.Unlock()
	}
}

var unaryMethod = serviceinfo.NewMethodInfo(nil, newNothing, newNothing, false, serviceinfo.WithStreamingMode(serviceinfo.StreamingUnary))

// method returns a method's description, which kitex asks for in each call.
func (s *service) method(_ context.Context, operation string) serviceinfo.MethodInfo {
	if stream, is := s.streams.Load(operation); is {
		return stream.(serviceinfo.MethodInfo)
	}
	return unaryMethod
}

func (s *session) service(named string) (*service, error) {
	if known, ok := s.services.Load(named); ok {
		return known.(*service), nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.services.Load(named); ok {
		return known.(*service), nil
	}
	options := []client.Option{
		client.WithDestService(destination), client.WithHostPorts(s.address),
		client.WithDialer(s.dialer), client.WithConnectTimeout(connectTimeout),
	}
	if s.mux {
		options = append(options, client.WithMuxConnection(1))
	} else {
		options = append(options, client.WithTransportProtocol(transport.GRPC), client.WithGRPCConnPoolSize(1))
	}
	made := &service{}
	info := serviceInfo(named)
	info.GenericMethod = made.method
	var err error
	if made.client, err = client.NewClient(info, options...); err != nil {
		return nil, err
	}
	s.services.Store(named, made)
	return made, nil
}

// Closed implements carry.Session.
func (*session) Closed() bool { return false }

// refuseClosed is deferred by calls. kitex panics in a call on a closed client.
func (s *session) refuseClosed(err *error) {
	if !s.closed.Load() {
		return
	}
	if recover() != nil {
		*err = net.ErrClosed
	}
}

// Close implements carry.Session.
func (s *session) Close() error {
	s.closed.Store(true)
	var all []error
	s.services.Range(func(_, one any) bool {
		if closer, is := one.(*service).client.(interface{ Close() error }); is {
			all = append(all, closer.Close())
		}
		return true
	})
	s.dialer.mu.Lock()
	s.dialer.closed = true
	var open []netpoll.Connection
	for one := range s.dialer.opened {
		open = append(open, one)
	}
	s.dialer.mu.Unlock()
	for _, one := range open {
		all = append(all, one.Close())
	}
	return errors.Join(all...)
}

// Invoke implements carry.Session.
func (s *session) Invoke(ctx context.Context, method string, request, reply any) (err error) {
	defer s.refuseClosed(&err)
	named, operation := carry.Split(method)
	of, err := s.service(named)
	if err != nil {
		return err
	}
	var sent, received message
	if sent.value, err = carry.ProtoOf(request); err != nil {
		return err
	}
	if received.value, err = carry.ProtoOf(reply); err != nil {
		return err
	}
	end := of.begin()
	defer func() { end(err) }()
	return callError(of.client.Call(ctx, operation, &sent, &received))
}

// NewStream implements carry.Session.
func (s *session) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string) (_ carry.Stream, err error) {
	defer s.refuseClosed(&err)
	named, operation := carry.Split(method)
	of, err := s.service(named)
	if err != nil {
		return nil, err
	}
	if _, known := of.streams.Load(operation); !known {
		of.streams.Store(operation, serviceinfo.NewMethodInfo(nil, newNothing, newNothing, false,
			serviceinfo.WithStreamingMode(streamingMode(desc.ClientStreams, desc.ServerStreams))))
	}
	var result streaming.Result
	end := of.begin()
	defer func() { end(err) }()
	if err := of.client.(client.Streaming).Stream(ctx, operation, nil, &result); err != nil {
		return nil, callError(err)
	}
	return stream{result.Stream}, nil
}

type stream struct{ streaming.Stream }

// SendMsg implements carry.Messages.
func (s stream) SendMsg(m any) error {
	err := callError(s.Stream.SendMsg(m))
	if _, told := status.FromError(err); err != nil && told {
		return io.EOF // as with grpc-go, RecvMsg returns the status
	}
	return err
}

// RecvMsg implements carry.Messages.
func (s stream) RecvMsg(m any) error { return callError(s.Stream.RecvMsg(m)) }

// CloseSend implements carry.Stream.
func (s stream) CloseSend() error { return s.Close() }

// End implements carry.Stream.
func (stream) End() error { return nil }

// callError returns the gRPC status of an error that the server sent, or err.
func callError(err error) error {
	if told, is := errors.AsType[interface {
		error
		GRPCStatus() *kitexstatus.Status
	}](err); is {
		return status.Error(codes.Code(told.GRPCStatus().Code()), strings.TrimSuffix(told.GRPCStatus().Message(), " [biz error]"))
	}
	if told, is := errors.AsType[*remote.TransError](err); is {
		code := codes.Unknown
		if told.TypeID() == remote.UnknownMethod || told.TypeID() == remote.UnknownService {
			code = codes.Unimplemented
		}
		return status.Error(code, told.Error())
	}
	return err
}
