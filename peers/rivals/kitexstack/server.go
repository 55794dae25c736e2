// Package kitexstack is the stack kitex: CloudWeGo's kitex on netpoll, its own network poller, with
// protobuf messages. A variant uses gRPC, or TTHeader frames with connection multiplexing. The
// descriptions of services are what kitex's generator writes for them. netpoll has its default of one
// poller for up to 20 CPUs. studies/rivals.yaml says what netpoll costs if an end has one CPU.
package kitexstack

import (
	"context"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/cloudwego/kitex/pkg/klog"
	kitexcodes "github.com/cloudwego/kitex/pkg/remote/trans/nphttp2/codes"
	kitexstatus "github.com/cloudwego/kitex/pkg/remote/trans/nphttp2/status"
	"github.com/cloudwego/kitex/pkg/rpcinfo"
	"github.com/cloudwego/kitex/pkg/serviceinfo"
	"github.com/cloudwego/kitex/pkg/streaming"
	"github.com/cloudwego/kitex/server"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"wirelab.dev/internal/base/tuning"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/stack/rivalstack"
	"wirelab.dev/peers/rivals/carry"
)

const (
	name        = "kitex"
	destination = "wirelab" // the name of the service in kitex's registry, which is not used
	// exitWait bounds the end of kitex's server. Calls have ended before.
	exitWait = 50 * time.Millisecond
)

// Stack is kitex.
type Stack struct{ rivalstack.Stack }

// New returns the stack. It leaves only fatal lines of kitex's log, which names each lost
// connection.
func New() Stack {
	klog.SetLevel(klog.LevelFatal)
	return Stack{rivalstack.Kitex}
}

var _ stack.Stack = Stack{}

// Settings implements stack.SettingsReporter.
func (Stack) Settings(v scenario.Variant, _ stack.Target) ([]tuning.Setting, error) {
	all := []tuning.Setting{
		{Side: tuning.Server, Name: "server.WithExitWaitTime", Value: exitWait.String(), Default: "5s", Why: "the calls have ended before the server stops"},
		{Side: tuning.Server, Name: "server.WithCompatibleMiddlewareForUnary", Value: "set", Default: "not set", Why: "the generated code of kitex's benchmark sets it: unary handlers get messages, not streams"},
		{Side: tuning.Client, Name: "client.WithConnectTimeout", Value: connectTimeout.String(), Default: "50ms", Why: "no other stack gives up a connection so early"},
	}
	if !rivalstack.Multiplexes(v) {
		all = append(all, tuning.Setting{
			Side: tuning.Client, Name: "client.WithGRPCConnPoolSize", Value: "1", Default: "GOMAXPROCS * 3/2",
			Why: "the connection mode sets the number of connections",
		})
	}
	return append(all, stack.MessageLimit(stack.MaxMessageBytes)...), nil
}

// NewServer implements stack.Stack.
func (s Stack) NewServer(v scenario.Variant) (stack.Server, error) {
	if _, err := s.Security(v); err != nil {
		return nil, err
	}
	return carry.NewServer(carry.Plan{Name: name, OwnSockets: true, Start: func(s *carry.Server) (carry.Library, error) {
		services, err := describe(s)
		return &library{services: services, mux: rivalstack.Multiplexes(v), exit: make(chan error)}, err
	}}), nil
}

// library is kitex's server. It is made by Serve, which has the listener.
type library struct {
	services []*serviceinfo.ServiceInfo
	mux      bool
	exit     chan error // closed by Stop
	stop     sync.Once
	running  sync.WaitGroup
}

// Serve implements carry.Library.
func (l *library) Serve(on net.Listener) error {
	l.running.Add(1)
	defer l.running.Done()
	options := []server.Option{
		server.WithListener(on), server.WithExitWaitTime(exitWait),
		server.WithExitSignal(func() <-chan error { return l.exit }), // otherwise kitex takes the process's signals
		server.WithServerBasicInfo(&rpcinfo.EndpointBasicInfo{ServiceName: destination}),
		server.WithCompatibleMiddlewareForUnary(),
	}
	if l.mux {
		options = append(options, server.WithMuxTransport())
	}
	made := server.NewServer(options...)
	for _, service := range l.services {
		if err := made.RegisterService(service, &struct{}{}); err != nil {
			return err
		}
	}
	return made.Run()
}

// Stop implements carry.Library. It waits until kitex has closed its connections.
func (l *library) Stop() {
	l.stop.Do(func() { close(l.exit) })
	l.running.Wait()
}

// describe describes the registered services, as kitex's generated code does.
func describe(s *carry.Server) ([]*serviceinfo.ServiceInfo, error) {
	var all []*serviceinfo.ServiceInfo
	known := map[string]*serviceinfo.ServiceInfo{}
	for _, m := range s.InOrder() {
		service, operation := carry.Split(m.FullName)
		if known[service] == nil {
			known[service] = serviceInfo(service)
			known[service].Methods = map[string]serviceinfo.MethodInfo{}
			all = append(all, known[service])
		}
		described, err := methodInfo(s, m)
		if err != nil {
			return nil, err
		}
		known[service].Methods[operation] = described
	}
	return all, nil
}

func serviceInfo(service string) *serviceinfo.ServiceInfo {
	packageName, short := "", service
	if dot := strings.LastIndexByte(service, '.'); dot >= 0 {
		packageName, short = service[:dot], service[dot+1:]
	}
	return &serviceinfo.ServiceInfo{
		ServiceName: short, HandlerType: (*any)(nil), PayloadCodec: serviceinfo.Protobuf,
		Extra: map[string]any{serviceinfo.PackageName: packageName, "streaming": true},
	}
}

func methodInfo(s *carry.Server, m *stack.Method) (serviceinfo.MethodInfo, error) {
	if m.Unary == nil {
		handle := func(_ context.Context, _, args, _ any) error {
			of := args.(*streaming.Args).Stream // kitex gives no other arguments to streams
			return toldError(s.Stream(m, &carry.ServerStream{Messages: of, Ctx: of.Context()}))
		}
		return serviceinfo.NewMethodInfo(handle, newNothing, newNothing, false, serviceinfo.WithStreamingMode(streamingMode(m.ClientStreams(), m.ServerStreams()))), nil
	}
	request, err := carry.RequestType(m)
	if err != nil {
		return nil, err
	}
	handle := func(ctx context.Context, _, args, result any) error {
		answer, err := s.Decoded(ctx, m, args.(*message).value) // newArgs makes the arguments
		if err != nil {
			return toldError(err)
		}
		result.(*message).value, err = carry.ProtoOf(answer)
		return err
	}
	newArgs := func() any { return &message{kind: request} }
	return serviceinfo.NewMethodInfo(handle, newArgs, newNothing, false, serviceinfo.WithStreamingMode(serviceinfo.StreamingUnary)), nil
}

func streamingMode(client, server bool) (mode serviceinfo.StreamingMode) {
	if client {
		mode |= serviceinfo.StreamingClient
	}
	if server {
		mode |= serviceinfo.StreamingServer
	}
	return mode
}

func newNothing() any { return &message{} }

// message holds a request or an answer, as the generated types of arguments and results do.
type message struct {
	value proto.Message
	kind  protoreflect.MessageType // makes value if it is nil
}

// Marshal implements kitex's ProtobufMsgCodec.
func (m *message) Marshal(out []byte) ([]byte, error) {
	if m.value == nil {
		return out, nil
	}
	return proto.Marshal(m.value)
}

// Unmarshal implements kitex's ProtobufMsgCodec.
func (m *message) Unmarshal(in []byte) error {
	if m.value == nil {
		m.value = m.kind.New().Interface()
	}
	return proto.Unmarshal(in, m.value)
}

// toldError makes a status of kitex, which has a package of its own for them.
func toldError(err error) error {
	if err == nil {
		return nil
	}
	told := status.Convert(err)
	return kitexstatus.Err(kitexcodes.Code(told.Code()), told.Message())
}
