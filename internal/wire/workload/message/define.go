package message

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"

	"wirelab.dev/internal/wire/schema"
)

// A Source is a user's input to Compile.
type Source struct {
	Proto       string   // the file that has the service
	ImportPaths []string // where imports are found; empty: beside the file
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

// Compile makes a definition, or returns an error that says what is wrong with the
// source.
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
