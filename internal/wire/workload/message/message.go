// Package message is the workload `message`: a user's own unary method with the user's
// own messages.
//
// Compile reads .proto files and the messages as JSON, and makes a Definition
// of them that needs no files. Both ends build the service from it: the
// server answers every request with the same response. If both have one type and no
// response was given, it answers with the request. The client checks each answer.
//
// The messages are dynamic, since no code was generated for them. That costs both ends
// more than generated code, equally on every stack.
package message

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/workload"
)

// Workload is message. The zero value is ready.
type Workload struct{}

// Info describes message. A size is the size of an encoded message. The method and its messages are
// no option, since an option cannot hold them.
func (Workload) Info() workload.Info {
	return workload.Info{
		Name:    "message",
		Summary: "a unary method of your own, with your own message: compare --proto FILE --call pkg.Service/Method --data FILE",
		Options: []scenario.Option{{Key: "call", Help: "PKG.SERVICE/METHOD: as --call says; needs --proto beside it"}},
		Sized:   true, Operations: 1,
	}
}

var errNoDefinition = errors.New("message: there is no message; compare brings one with --proto FILE --call pkg.Service/Method --data FILE")

// Check checks the definition, and that the sizes fit its messages. It accepts the name alone.
func (w Workload) Check(p workload.Parameters) error {
	if err := workload.ReadOptions(w, p).Err(); err != nil {
		return err
	}
	if len(p.Definition) == 0 {
		if p.RequestBytes != 0 || p.ResponseBytes != 0 {
			return errNoDefinition
		}
		return nil
	}
	m, err := parse(p.Definition)
	if err != nil {
		return err
	}
	request, response := proto.Size(m.request), proto.Size(m.response)
	if p.RequestBytes != request || p.ResponseBytes != response {
		return fmt.Errorf("message: the request and the response are set to %d and %d bytes, but the messages have %d and %d", p.RequestBytes, p.ResponseBytes, request, response)
	}
	return nil
}

// Register registers the method with a server. Without a definition it registers a
// service that nothing implements, so that Listen reports the error.
func (Workload) Register(to grpc.ServiceRegistrar, p workload.Parameters) {
	m, err := parse(p.Definition)
	if err != nil {
		to.RegisterService(&grpc.ServiceDesc{ServiceName: errNoDefinition.Error(), HandlerType: (*error)(nil)}, struct{}{})
		return
	}
	to.RegisterService(m.service(), struct{}{})
}

// NewCaller makes one client.
func (Workload) NewCaller(conn grpc.ClientConnInterface, job workload.Job) workload.Caller {
	m, err := parse(job.Definition)
	return &caller{conn: conn, method: m, broken: err}
}

// A method is a parsed definition.
type method struct {
	descriptor        protoreflect.MethodDescriptor
	request, response *dynamicpb.Message
	echoes            bool // the response is the request
}

func (m *method) fullName() string {
	return fmt.Sprintf("/%s/%s", m.descriptor.Parent().FullName(), m.descriptor.Name())
}

// service returns the description that protoc-gen-go-grpc would have generated.
func (m *method) service() *grpc.ServiceDesc {
	return &grpc.ServiceDesc{
		ServiceName: string(m.descriptor.Parent().FullName()),
		HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{
			MethodName: string(m.descriptor.Name()),
			Handler: func(srv any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
				in := dynamicpb.NewMessage(m.descriptor.Input())
				if err := decode(in); err != nil {
					return nil, err
				}
				if interceptor == nil {
					return m.answer(in), nil
				}
				return interceptor(ctx, in, &grpc.UnaryServerInfo{Server: srv, FullMethod: m.fullName()},
					func(_ context.Context, in any) (any, error) { return m.answer(in), nil })
			},
		}},
	}
}

// answer returns the response. It is shared: do not write to it.
func (m *method) answer(request any) any {
	if m.echoes {
		return request
	}
	return m.response
}

type caller struct {
	conn   grpc.ClientConnInterface
	method *method
	broken error
	reply  *dynamicpb.Message
}

// Call sends the message.
func (c *caller) Call(ctx context.Context) error {
	if c.broken != nil {
		return status.Error(codes.Internal, c.broken.Error())
	}
	c.reply = dynamicpb.NewMessage(c.method.descriptor.Output())
	return c.conn.Invoke(ctx, c.method.fullName(), c.method.request, c.reply)
}

// Check checks that the answer is the defined response.
func (c *caller) Check() error {
	if !proto.Equal(c.reply, c.method.response) {
		return fmt.Errorf("message: the answer of %s differs from the defined response", c.method.fullName())
	}
	return nil
}

// Sizes holds the sizes of a definition's messages, in bytes.
type Sizes struct {
	Request, Response         int // encoded in protobuf
	RequestJSON, ResponseJSON int
	RequestGzip, ResponseGzip int // the encoded ones, compressed
}

// SizesOf measures a definition.
func SizesOf(definition string) (Sizes, error) {
	m, err := parse(definition)
	if err != nil {
		return Sizes{}, err
	}
	var s Sizes
	if s.Request, s.RequestJSON, s.RequestGzip, err = weigh(m.request); err != nil {
		return Sizes{}, err
	}
	s.Response, s.ResponseJSON, s.ResponseGzip, err = weigh(m.response)
	return s, err
}
