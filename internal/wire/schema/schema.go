// Package schema finds a method of gRPC and turns JSON into its messages and back.
//
//	.proto files ──────┐
//	descriptor file ───┼─> descriptors ─> Method ── Calls(JSON) ──> messages
//	server reflection ─┘                   │   └─── Decode(message) ─> JSON
//	                                       └─ Files() ── bytes ──> Load, where there are no files
//
// Whatever the source, the descriptors of the service, of all that it imports, and of
// messages that a google.protobuf.Any may hold become one set of files, and the rest of
// the package knows only that. Messages are dynamic, since no code was generated for them.
//
// Errors are for the person who typed the call: they name the place in the JSON, the
// message and its field, and the nearest existing name. This package must not know when
// messages are sent.
package schema

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// A Source says where to look for a method: in the first of Proto, Protoset and Reflection that is
// set.
type Source struct {
	Proto       string   // the file that has the service
	ImportPaths []string // where imports are found; empty: beside the file

	// Protoset is a file of descriptors: what protoc --descriptor_set_out or buf build -o
	// writes, in binary or JSON, also compressed with gzip.
	Protoset string

	Reflection grpc.ClientConnInterface // a server that is asked
	Metadata   metadata.MD              // sent with the questions

	// Call is pkg.Service/Method, also with a slash before it, or a dot in its middle.
	Call string
	// Data is the JSON that will be encoded, if it is known. A server is also asked for the types that
	// each google.protobuf.Any in it names.
	Data []byte
}

var errNoSource = errors.New("there is no description of the messages: name the .proto with --proto, or a descriptor file with --protoset")

// Find finds the method that a source names.
func Find(ctx context.Context, s Source) (*Method, error) {
	var set *descriptorpb.FileDescriptorSet
	var from string
	var err error
	switch {
	case s.Proto != "":
		from = s.Proto
		set, err = compile(ctx, s)
	case s.Protoset != "":
		from = s.Protoset
		set, err = readImage(s.Protoset)
	case s.Reflection != nil:
		from = "the server"
		set, err = reflectFiles(ctx, s)
	default:
		return nil, errNoSource
	}
	if err != nil {
		return nil, err
	}
	files, err := link(set)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", from, err)
	}
	method, err := choose(files, s.Call)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", from, err)
	}
	return newMethod(files, method), nil
}

// Load finds a method in what Files returned.
func Load(set []byte, call string) (*Method, error) {
	var decoded descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(set, &decoded); err != nil {
		return nil, fmt.Errorf("the descriptors of %s: %w", call, err)
	}
	files, err := link(&decoded)
	if err != nil {
		return nil, fmt.Errorf("the descriptors of %s: %w", call, err)
	}
	method, err := choose(files, call)
	if err != nil {
		return nil, err
	}
	return newMethod(files, method), nil
}

// A Method is a method of gRPC. Its methods may be called concurrently.
type Method struct {
	Path   string // /pkg.Service/Method
	Stream Stream

	Descriptor protoreflect.MethodDescriptor

	files *protoregistry.Files
	types resolver
}

// A Stream is a kind of method. The zero value is unary.
type Stream struct {
	Client bool // sends any number of messages
	Server bool // answers with any number of messages
}

func newMethod(files *protoregistry.Files, d protoreflect.MethodDescriptor) *Method {
	return &Method{
		Path:       "/" + callName(d),
		Stream:     Stream{Client: d.IsStreamingClient(), Server: d.IsStreamingServer()},
		Descriptor: d,
		files:      files,
		types:      resolver{dynamicpb.NewTypes(files)},
	}
}

// callName returns pkg.Service/Method.
func callName(d protoreflect.MethodDescriptor) string {
	return fmt.Sprintf("%s/%s", d.Parent().FullName(), d.Name())
}

// maxSetBytes limits the size of a set that is handed on whole. From a larger one, which is an image
// of a whole company's files, only the service and its imports are taken.
const maxSetBytes = 4 << 20

// Files encodes the descriptors, as a FileDescriptorSet, for Load.
func (m *Method) Files() ([]byte, error) {
	var collected fileSet
	collected.add(m.Descriptor.ParentFile())
	needed := len(collected.files)
	for _, file := range sorted(m.files) {
		collected.add(file)
	}
	set, err := collected.encode(len(collected.files))
	if err == nil && len(set) > maxSetBytes {
		set, err = collected.encode(needed)
	}
	if err != nil {
		return nil, fmt.Errorf("encode the descriptors of %s: %w", m.Path, err)
	}
	return set, nil
}

// Describe describes in a few lines the method's request and answer.
func (m *Method) Describe() string {
	var text strings.Builder
	kind := func(stream bool) string {
		if stream {
			return "stream "
		}
		return ""
	}
	d := m.Descriptor
	fmt.Fprintf(&text, "%s(%s%s) returns (%s%s)\n", callName(d),
		kind(m.Stream.Client), d.Input().FullName(), kind(m.Stream.Server), d.Output().FullName())
	fields := d.Input().Fields()
	if fields.Len() == 0 {
		fmt.Fprintf(&text, "  %s has no fields\n", d.Input().FullName())
	}
	for i := range fields.Len() {
		fmt.Fprintf(&text, "  %q: %s\n", fields.Get(i).JSONName(), typeName(fields.Get(i)))
	}
	return text.String()
}

// typeName returns the type of a field as a .proto file has it.
func typeName(f protoreflect.FieldDescriptor) string {
	switch {
	case f.IsMap():
		return fmt.Sprintf("map<%s, %s>", f.MapKey().Kind(), typeName(f.MapValue()))
	case f.IsList():
		return "repeated " + elementName(f)
	}
	return elementName(f)
}

// elementName returns the type of one value of a field.
func elementName(f protoreflect.FieldDescriptor) string {
	switch {
	case f.Message() != nil:
		return string(f.Message().FullName())
	case f.Enum() != nil:
		return string(f.Enum().FullName())
	}
	return f.Kind().String()
}
