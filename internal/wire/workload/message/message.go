// Package message is the workload `message`: a unary method and messages that the user defines.
//
// Compile reads .proto files and JSON messages, and makes a definition that needs no files. Both
// ends build the service from it. The server answers every request with the same response. If the
// user gives no response, and request and response have the same type, the server answers with the
// request. The client checks each answer.
//
// There is no generated code for the messages. So these messages cost both ends more CPU time than
// generated messages, equally on every stack.
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

// Info describes the workload. The scenario's sizes are sizes of encoded messages.
// Parameters.Definition holds the method and its messages, which are too complex for options.
func (Workload) Info() workload.Info {
	return workload.Info{
		Name:    "message",
		Summary: "a unary method of your own, with your own message: compare --proto FILE --call pkg.Service/Method --data FILE",
		Options: []scenario.Option{{Key: "call", Help: "PKG.SERVICE/METHOD: the method, as with --call; needs --proto"}},
		Sized:   true, Operations: 1,
	}
}

var errNoDefinition = errors.New("message: no message is given: use compare --proto FILE --call pkg.Service/Method --data FILE")

// Check checks the definition, and that the sizes match its messages. Without a definition, it
// accepts only the workload's name.
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
		return fmt.Errorf("message: the sizes are set to %d and %d bytes, but the request and the response have %d and %d", p.RequestBytes, p.ResponseBytes, request, response)
	}
	return nil
}

// Register registers the method with a server. Without a definition it registers an unimplemented
// service, so that Listen reports the error.
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

type method struct {
	descriptor        protoreflect.MethodDescriptor
	request, response *dynamicpb.Message
	echoes            bool // whether the request is also the response
}

func (m *method) fullName() string {
	return fmt.Sprintf("/%s/%s", m.descriptor.Parent().FullName(), m.descriptor.Name())
}

// service returns the description that protoc-gen-go-grpc would generate.
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
					return m.respond(in), nil
				}
				return interceptor(ctx, in, &grpc.UnaryServerInfo{Server: srv, FullMethod: m.fullName()},
					func(_ context.Context, in any) (any, error) { return m.respond(in), nil })
			},
		}},
	}
}

// respond returns the response for a request. Callers share the response and must not change it.
func (m *method) respond(request any) any {
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
	Request, Response         int // size in protobuf
	RequestJSON, ResponseJSON int
	RequestGzip, ResponseGzip int // size in protobuf, compressed with gzip
}

// String describes the sizes of both messages.
func (s Sizes) String() string {
	return "the request has " + describeSizes(s.Request, s.RequestJSON, s.RequestGzip) + ", the response " + describeSizes(s.Response, s.ResponseJSON, s.ResponseGzip)
}

func describeSizes(encoded, asJSON, compressed int) string {
	if encoded == 0 {
		return fmt.Sprintf("0 bytes (%d as JSON)", asJSON)
	}
	return fmt.Sprintf("%d bytes (%d as JSON, a factor of %.2f; %d with gzip, a factor of %.2f)",
		encoded, asJSON, float64(asJSON)/float64(encoded), compressed, float64(compressed)/float64(encoded))
}

// SizesOf computes the sizes of a definition's messages.
func SizesOf(definition string) (Sizes, error) {
	m, err := parse(definition)
	if err != nil {
		return Sizes{}, err
	}
	var s Sizes
	if s.Request, s.RequestJSON, s.RequestGzip, err = measureSizes(m.request); err != nil {
		return Sizes{}, err
	}
	s.Response, s.ResponseJSON, s.ResponseGzip, err = measureSizes(m.response)
	return s, err
}

// A Source holds the user's input for Compile.
type Source struct {
	Proto       string   // the file that defines the service
	ImportPaths []string // folders to search for imports; empty means the file's own folder
	Call        string   // pkg.Service/Method
	Request     []byte   // as JSON
	Response    []byte   // as JSON; empty means a default response
}

// A definition is the encoded service that both ends read.
type definition struct {
	Descriptors []byte          `json:"descriptors"` // an encoded FileDescriptorSet
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

func measureSizes(m proto.Message) (encoded, asJSON, compressed int, err error) {
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
	_, _ = w.Write(wire) // never fails: a bytes.Buffer returns no error
	_ = w.Close()
	// protojson inserts random white space on purpose. Compact JSON shows the size on the wire.
	var compact bytes.Buffer
	if err := json.Compact(&compact, text); err != nil {
		return 0, 0, 0, err
	}
	return len(wire), compact.Len(), packed.Len(), nil
}
