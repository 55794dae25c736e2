package message

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"wirelab.dev/internal/scenario"
)

// Source is a user's input to Compile.
type Source struct {
	Proto       string   // the file that has the service
	ImportPaths []string // where imports are found; empty: beside the file
	Call        string   // pkg.Service/Method
	Request     []byte   // as JSON
	Response    []byte   // as JSON; empty: the request where both have one type, otherwise an empty message
}

// definition is the encoded form from which both ends are built.
type definition struct {
	Descriptors []byte          `json:"descriptors"` // a FileDescriptorSet
	Call        string          `json:"call"`
	Request     json.RawMessage `json:"request"`
	Response    json.RawMessage `json:"response,omitempty"`
}

// Compile makes a definition, or returns an error that says what is wrong with the
// source.
func Compile(ctx context.Context, s Source) (string, error) {
	paths := s.ImportPaths
	name := s.Proto
	if len(paths) == 0 {
		paths, name = []string{filepath.Dir(s.Proto)}, filepath.Base(s.Proto)
	}
	compiler := protocompile.Compiler{Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: paths})}
	files, err := compiler.Compile(ctx, filepath.ToSlash(name))
	if err != nil {
		return "", fmt.Errorf("compile %s: %w", s.Proto, err)
	}
	var set descriptorpb.FileDescriptorSet
	collect(files[0], &set, map[string]bool{})
	descriptors, err := proto.Marshal(&set)
	if err != nil {
		return "", fmt.Errorf("encode the descriptors of %s: %w", s.Proto, err)
	}
	d := definition{Descriptors: descriptors, Call: strings.TrimPrefix(s.Call, "/"), Request: s.Request, Response: s.Response}
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

// collect appends a file after the files that it imports, as a FileDescriptorSet
// requires.
func collect(file protoreflect.FileDescriptor, into *descriptorpb.FileDescriptorSet, seen map[string]bool) {
	if seen[file.Path()] {
		return
	}
	seen[file.Path()] = true
	imports := file.Imports()
	for i := range imports.Len() {
		collect(imports.Get(i).FileDescriptor, into, seen)
	}
	into.File = append(into.File, protodesc.ToFileDescriptorProto(file))
}

func parse(text string) (*method, error) {
	var d definition
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		return nil, fmt.Errorf("message: the definition: %w", err)
	}
	return d.method()
}

func (d *definition) method() (*method, error) {
	var set descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(d.Descriptors, &set); err != nil {
		return nil, fmt.Errorf("message: the descriptors: %w", err)
	}
	files, err := protodesc.NewFiles(&set)
	if err != nil {
		return nil, fmt.Errorf("message: the descriptors: %w", err)
	}
	m := &method{}
	if m.descriptor, err = find(files, d.Call); err != nil {
		return nil, err
	}
	types := dynamicpb.NewTypes(files)
	if m.request, err = fill(m.descriptor.Input(), d.Request, types); err != nil {
		return nil, fmt.Errorf("the request, a %s: %w", m.descriptor.Input().FullName(), err)
	}
	switch {
	case len(d.Response) > 0:
		m.response, err = fill(m.descriptor.Output(), d.Response, types)
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

// find returns the method, or an error that suggests the existing ones.
func find(files *protoregistry.Files, call string) (protoreflect.MethodDescriptor, error) {
	var calls []string
	var found protoreflect.MethodDescriptor
	files.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		services := file.Services()
		for i := range services.Len() {
			methods := services.Get(i).Methods()
			for j := range methods.Len() {
				name := fmt.Sprintf("%s/%s", services.Get(i).FullName(), methods.Get(j).Name())
				calls = append(calls, name)
				if name == call {
					found = methods.Get(j)
				}
			}
		}
		return true
	})
	switch {
	case found == nil && len(calls) == 0:
		return nil, fmt.Errorf("call %q: the file has no service", call)
	case found == nil:
		return nil, fmt.Errorf("call %q: %s", call, scenario.Suggest(call, calls))
	case found.IsStreamingClient() || found.IsStreamingServer():
		return nil, fmt.Errorf("call %q is a stream, and only unary methods can be echoed", call)
	}
	return found, nil
}

func fill(descriptor protoreflect.MessageDescriptor, text []byte, types *dynamicpb.Types) (*dynamicpb.Message, error) {
	m := dynamicpb.NewMessage(descriptor)
	return m, protojson.UnmarshalOptions{Resolver: types}.Unmarshal(text, m)
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
