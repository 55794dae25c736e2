package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/pluginpb"
)

// modulePrefix is the prefix that plugins strip from go_package to name their files, which makes
// the names relative to the root.
const modulePrefix = "wirelab.dev"

// plugins run in this order; each is a tool line in tools/go.mod.
var plugins = []plugin{
	{tool: "protoc-gen-go"},
	{tool: "protoc-gen-go-grpc"},
	{
		tool: "protoc-gen-go-vtproto",
		options: []string{
			"features=marshal+unmarshal+size+pool",
			"pool=wirelab.dev/internal/wire/workload/store/storepb.Chunk", // for the variant option messages=pooled
		},
		// The messages that the codecs under test send.
		only: []string{
			"internal/wire/workload/echo/echo.proto",
			"internal/wire/workload/store/store.proto",
			"internal/wire/workload/users/users.proto",
		},
	},
}

// protoCopies maps each copy to its original. The sources of a peer are also built outside
// of this tree, so they need a copy.
var protoCopies = map[string]string{
	"peers/proto/echo.proto": "internal/wire/workload/echo/echo.proto",
	"peers/proto/ping.proto": "internal/wire/workload/ping/ping.proto",
	"peers/proto/chat.proto": "internal/wire/workload/chat/chat.proto",
}

// A layout says how plugins name the files that they make of some .proto files.
type layout struct {
	parameter string
	holds     func(source string) bool
}

// layouts hold the .proto files of this module, whose go_package names their folders, and those of the
// examples, which have other modules' names.
var layouts = []layout{
	{"module=" + modulePrefix, func(source string) bool { return !isExample(source) }},
	{"paths=source_relative", isExample},
}

func isExample(source string) bool { return strings.HasPrefix(source, "examples/") }

// A plugin is a protoc plugin with its options, without the option module.
type plugin struct {
	tool    string
	options []string
	only    []string // the .proto files to generate from; empty means all
}

// generateGo returns the Go code of every .proto file in the tree, and the copies of
// .proto files, by their paths below root.
//
// It needs no protoc: protocompile parses and links the files, and each plugin gets the
// result as a CodeGeneratorRequest. "go tool" starts the plugins, whose versions are in
// tools/go.mod.
func generateGo(ctx context.Context, root string) (map[string][]byte, error) {
	sources, err := findFiles(root, ".proto")
	if err != nil {
		return nil, fmt.Errorf("look for .proto files: %w", err)
	}
	ofPeers := func(name string) bool { return strings.HasPrefix(name, "peers/") } // peers generate their own code
	request, err := compile(ctx, root, slices.DeleteFunc(sources, ofPeers))
	if err != nil {
		return nil, fmt.Errorf("compile: %w", err)
	}
	generated := make(map[string][]byte)
	for to, from := range protoCopies {
		if generated[to], err = os.ReadFile(filepath.Join(root, from)); err != nil {
			return nil, err
		}
	}
	for _, p := range plugins {
		for _, l := range layouts {
			response, err := p.call(ctx, request, l)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", p.tool, err)
			}
			for _, file := range response.GetFile() {
				generated[file.GetName()] = []byte(file.GetContent())
			}
		}
	}
	return generated, nil
}

// findFiles lists the files below root whose names end in suffix, relative to
// root and with slashes. It skips folders that the go command ignores, and nested
// modules other than examples.
func findFiles(root, suffix string) ([]string, error) {
	var found []string
	err := fs.WalkDir(os.DirFS(root), ".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case !entry.IsDir() && strings.HasSuffix(path, suffix):
			found = append(found, path)
		case entry.IsDir() && path != ".":
			_, notModule := os.Stat(filepath.Join(root, path, "go.mod"))
			if name := entry.Name(); notModule == nil && !isExample(path) || name == "testdata" || name == "node_modules" || strings.ContainsAny(name[:1], "._") {
				return fs.SkipDir
			}
		}
		return nil
	})
	return found, err
}

// compile parses and links the sources. The request holds the sources and all their imports.
// Each file comes after its imports, as plugins demand.
func compile(ctx context.Context, root string, sources []string) (*pluginpb.CodeGeneratorRequest, error) {
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{root}}),
		SourceInfoMode: protocompile.SourceInfoStandard, // comments become Go comments
	}
	files, err := compiler.Compile(ctx, sources...)
	if err != nil {
		return nil, err
	}
	request := &pluginpb.CodeGeneratorRequest{FileToGenerate: sources}
	added := make(map[string]bool)
	var add func(protoreflect.FileDescriptor)
	add = func(file protoreflect.FileDescriptor) {
		if added[file.Path()] {
			return
		}
		added[file.Path()] = true
		for i := range file.Imports().Len() {
			add(file.Imports().Get(i).FileDescriptor)
		}
		request.ProtoFile = append(request.ProtoFile, protoutil.ProtoFromFileDescriptor(file))
	}
	for _, file := range files {
		add(file)
	}
	return request, nil
}

// call runs the plugin: the request goes to its standard input, the response comes
// from its standard output.
func (p plugin) call(ctx context.Context, request *pluginpb.CodeGeneratorRequest, l layout) (*pluginpb.CodeGeneratorResponse, error) {
	request = proto.CloneOf(request)
	request.FileToGenerate = slices.DeleteFunc(request.FileToGenerate, func(name string) bool {
		return !l.holds(name) || len(p.only) > 0 && !slices.Contains(p.only, name)
	})
	if len(request.FileToGenerate) == 0 {
		return nil, nil
	}
	request.Parameter = proto.String(strings.Join(append([]string{l.parameter}, p.options...), ","))
	input, err := proto.Marshal(request)
	if err != nil {
		return nil, err
	}
	command := exec.CommandContext(ctx, "go", "tool", p.tool)
	command.Stdin = bytes.NewReader(input)
	command.Stderr = os.Stderr
	output, err := command.Output()
	var response pluginpb.CodeGeneratorResponse
	if err = cmp.Or(err, proto.Unmarshal(output, &response)); err == nil && response.Error != nil {
		err = errors.New(response.GetError())
	}
	return &response, err
}
