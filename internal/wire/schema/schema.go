// Package schema finds a gRPC method. It converts JSON into the method's messages and back.
//
//	.proto files ──────┐
//	descriptor file ───┼─> descriptors ─> Method ── Calls(JSON) ──> messages
//	server reflection ─┘                   │   └─── Decode(message) ─> JSON
//	                                       └─ Files() ── bytes ──> Load, where there are no files
//
// From every source the package makes one set of files: the service, its imports, and the messages
// that a google.protobuf.Any may hold. The rest of the package uses only that set. It has no
// generated code for the messages, so it handles them dynamically.
//
// Errors are for the person who typed the call. They name the place in the JSON, the message, the
// field, and similar existing names. This package must not know when messages are sent.
package schema

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/bufbuild/protocompile"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// A Source says where to find a method. Find uses the first set field of Proto, Protoset,
// Reflection.
type Source struct {
	Proto       string   // the file that defines the service
	ImportPaths []string // folders to search for imports; empty means the file's own folder

	// Protoset is a descriptor file from protoc --descriptor_set_out or buf build -o: binary or
	// JSON, also compressed with gzip.
	Protoset string

	Reflection grpc.ClientConnInterface // connection to a server that has reflection
	Metadata   metadata.MD              // metadata of the reflection requests

	// Call is pkg.Service/Method, /pkg.Service/Method or pkg.Service.Method.
	Call string
	// Data is the JSON to encode, if it is known. The server is also asked for the types that Data
	// names in google.protobuf.Any values.
	Data []byte
}

var errNoSource = errors.New("no file describes the messages: name the .proto with --proto, or a descriptor file with --protoset")

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
	return methodOf(set, from, s.Call)
}

// Load finds a method in a set that Files returned.
func Load(set []byte, call string) (*Method, error) {
	var decoded descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(set, &decoded); err != nil {
		return nil, fmt.Errorf("decode the descriptors of %s: %w", call, err)
	}
	return methodOf(&decoded, "the descriptors of "+call, call)
}

// methodOf finds a method in a set of files. from names the set's origin in errors.
func methodOf(set *descriptorpb.FileDescriptorSet, from, call string) (*Method, error) {
	files, err := linkFiles(set)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", from, err)
	}
	d, err := findMethod(files, call)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", from, err)
	}
	return &Method{
		Path:       "/" + callName(d),
		Stream:     Stream{Client: d.IsStreamingClient(), Server: d.IsStreamingServer()},
		Descriptor: d,
		files:      files,
		types:      resolver{dynamicpb.NewTypes(files)},
	}, nil
}

func compile(ctx context.Context, s Source) (*descriptorpb.FileDescriptorSet, error) {
	name, paths := importName(s)
	compiler := protocompile.Compiler{Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: paths})}
	files, err := compiler.Compile(ctx, name)
	if err != nil {
		hint := ""
		if errors.Is(err, os.ErrNotExist) {
			hint = fmt.Sprintf("; imports are read from %s: name other folders with --import-path", strings.Join(paths, ", "))
		}
		return nil, fmt.Errorf("compile %s: %w%s", s.Proto, err, hint)
	}
	var collected fileSet
	collected.add(files[0])
	return &descriptorpb.FileDescriptorSet{File: collected.files}, nil
}

// importName returns the name by which other files would import the source's file, and the folders
// that are searched for imports. The user's path is relative to the working folder or an import
// path.
func importName(s Source) (name string, paths []string) {
	for _, path := range s.ImportPaths {
		if _, err := os.Stat(filepath.Join(path, s.Proto)); err == nil {
			return filepath.ToSlash(s.Proto), s.ImportPaths
		}
		if below, err := filepath.Rel(path, s.Proto); err == nil && filepath.IsLocal(below) {
			return filepath.ToSlash(below), s.ImportPaths
		}
	}
	return filepath.Base(s.Proto), append([]string{filepath.Dir(s.Proto)}, s.ImportPaths...)
}

const maxImageBytes = 64 << 20

func readImage(path string) (*descriptorpb.FileDescriptorSet, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // the file was opened only for reading
	set, err := parseImage(file, maxImageBytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return set, nil
}

// parseImage reads a FileDescriptorSet. It ignores the additional fields of a Buf image.
func parseImage(from io.Reader, limit int64) (*descriptorpb.FileDescriptorSet, error) {
	data, err := readBounded(from, limit)
	if err == nil && bytes.HasPrefix(data, []byte{0x1f, 0x8b}) { // RFC 1952, section 2.3.1
		var plain *gzip.Reader
		if plain, err = gzip.NewReader(bytes.NewReader(data)); err == nil {
			data, err = readBounded(plain, limit)
		}
	}
	if err != nil {
		return nil, err
	}
	var set descriptorpb.FileDescriptorSet
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		err = protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(data, &set)
	} else {
		err = proto.Unmarshal(data, &set)
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("want a descriptor file from protoc --descriptor_set_out or buf build -o: %w", err)
	case len(set.File) == 0:
		return nil, errors.New("found no .proto files: want a descriptor file from protoc --descriptor_set_out or buf build -o")
	}
	return &set, nil
}

func readBounded(from io.Reader, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(from, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("found more than %d bytes of descriptors: leave out files that the call does not need", limit)
	}
	return data, err
}
