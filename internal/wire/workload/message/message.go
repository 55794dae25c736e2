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
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/schema"
	"wirelab.dev/internal/wire/workload"
)

// Workload is message. The zero value is ready.
type Workload struct{}

// Info describes message. A size is the size of an encoded message. No option can hold the method
// and its messages: Parameters.Definition does.
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

// SizesOf computes the sizes of a definition's messages.
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

// A Source is a user's input to Compile.
type Source struct {
	Proto       string   // the file that has the service
	ImportPaths []string // folders of imports; empty: the file's own
	Call        string   // pkg.Service/Method
	Request     []byte   // as JSON
	Response    []byte   // as JSON; empty: the request where both have one type, otherwise an empty message
}

// A definition is the encoded form from which both ends are built.
type definition struct {
	Descriptors []byte          `json:"descriptors"` // a FileDescriptorSet
	Call        string          `json:"call"`
	Request     json.RawMessage `json:"request"`
	Response    json.RawMessage `json:"response,omitempty"`
}

// Compile makes a definition, or an error that says what is wrong with the source.
func Compile(ctx context.Context, s Source) (string, error) {
	found, err := schema.Find(ctx, schema.Source{Proto: s.Proto, ImportPaths: s.ImportPaths, Call: s.Call})
	if err != nil {
		return "", err
	}
	descriptors, err := found.Files()
	if err != nil {
		return "", err
	}
	d := definition{Descriptors: descriptors, Call: strings.TrimPrefix(found.Path, "/"), Request: s.Request, Response: s.Response}
	if len(d.Request) == 0 {
		d.Request = []byte("{}")
	}
	for what, text := range map[string]json.RawMessage{"request": d.Request, "response": d.Response} {
		if len(text) > 0 && !json.Valid(text) {
			return "", fmt.Errorf("the %s is not JSON", what)
		}
	}
	if _, err := d.method(); err != nil {
		return "", err
	}
	text, err := json.Marshal(d)
	return string(text), err
}

func parse(text string) (*method, error) {
	var d definition
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		return nil, fmt.Errorf("message: the definition: %w", err)
	}
	return d.method()
}

func (d *definition) method() (*method, error) {
	found, err := schema.Load(d.Descriptors, d.Call)
	if err != nil {
		return nil, fmt.Errorf("message: %w", err)
	}
	if found.Stream != (schema.Stream{}) {
		return nil, fmt.Errorf("call %q is a stream, and only unary methods can be echoed", d.Call)
	}
	m := &method{descriptor: found.Descriptor}
	if m.request, err = found.Input(d.Request); err != nil {
		return nil, fmt.Errorf("the request, a %s: %w", m.descriptor.Input().FullName(), err)
	}
	switch {
	case len(d.Response) > 0:
		m.response, err = found.Output(d.Response)
	case m.descriptor.Input() == m.descriptor.Output():
		m.response, m.echoes = m.request, true
	default:
		m.response = dynamicpb.NewMessage(m.descriptor.Output())
	}
	if err != nil {
		return nil, fmt.Errorf("the response, a %s: %w", m.descriptor.Output().FullName(), err)
	}
	return m, nil
}

// weigh measures a message in three encodings.
func weigh(m proto.Message) (encoded, asJSON, compressed int, err error) {
	wire, err := proto.Marshal(m)
	if err != nil {
		return 0, 0, 0, err
	}
	text, err := protojson.Marshal(m)
	if err != nil {
		return 0, 0, 0, err
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = w.Write(wire) // a bytes.Buffer takes everything
	_ = w.Close()
	// protojson varies its white space on purpose; the wire carries compact JSON.
	var compact bytes.Buffer
	if err := json.Compact(&compact, text); err != nil {
		return 0, 0, 0, err
	}
	return len(wire), compact.Len(), packed.Len(), nil
}
