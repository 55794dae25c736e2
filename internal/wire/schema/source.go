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
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
)

// compile reads .proto files.
func compile(ctx context.Context, s Source) (*descriptorpb.FileDescriptorSet, error) {
	name, paths := importName(s)
	compiler := protocompile.Compiler{Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: paths})}
	files, err := compiler.Compile(ctx, name)
	if err != nil {
		hint := ""
		if errors.Is(err, os.ErrNotExist) {
			hint = fmt.Sprintf("; imports are looked for in %s: name others with --import-path", strings.Join(paths, ", "))
		}
		return nil, fmt.Errorf("compile %s: %w%s", s.Proto, err, hint)
	}
	var collected fileSet
	collected.add(files[0])
	return &descriptorpb.FileDescriptorSet{File: collected.files}, nil
}

// importName returns the name by which other files would import a source's file, and the
// folders that such names start from. A user may name the file from the working folder or
// from an import path.
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

// maxImageBytes bounds a file of descriptors, decompressed.
const maxImageBytes = 64 << 20

func readImage(path string) (*descriptorpb.FileDescriptorSet, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // it was only read
	set, err := parseImage(file, maxImageBytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return set, nil
}

// parseImage reads a FileDescriptorSet. A Buf image is one with more fields, which are
// ignored.
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
		return nil, fmt.Errorf("want descriptors, as protoc --descriptor_set_out or buf build -o writes them: %w", err)
	case len(set.File) == 0:
		return nil, errors.New("it has no files: want descriptors, as protoc --descriptor_set_out or buf build -o writes them")
	}
	return &set, nil
}

func readBounded(from io.Reader, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(from, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("it has more than %d bytes of descriptors: leave out what the call does not need", limit)
	}
	return data, err
}
