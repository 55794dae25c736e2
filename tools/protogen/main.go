// Command protogen generates the Go code of every .proto file in the tree.
//
// It stands in for protoc: protocompile parses and links the files, the result
// is handed to the plugins as a CodeGeneratorRequest, and what they answer is
// written below the root. The plugins are the ones pinned in tools/go.mod,
// started with "go tool", so a machine with Go alone can run it. It knows
// nothing of what the services mean.
//
//	go -C tools run ./protogen          # write
//	go -C tools run ./protogen -check   # fail if the written code has drifted
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

// module is the prefix that plugins strip from go_package to name their files,
// so that names come out relative to the root.
const module = "wirelab.dev"

// plugins are asked in this order; each is a tool line in tools/go.mod.
var plugins = []plugin{
	{tool: "protoc-gen-go"},
	{tool: "protoc-gen-go-grpc"},
	{
		tool: "protoc-gen-go-vtproto",
		options: []string{
			"features=marshal+unmarshal+size+pool",
			"pool=wirelab.dev/internal/workload/store/storepb.Chunk", // of messages=pooled
		},
		// What the codecs under test are to carry.
		only: []string{
			"internal/workload/echo/echo.proto",
			"internal/workload/store/store.proto",
			"internal/workload/users/users.proto",
		},
	},
}

// plugin is a protoc plugin and the options it is given besides the module.
type plugin struct {
	tool    string
	options []string
	only    []string // the files it is for; empty: all
}

func main() {
	root := flag.String("root", "..", "`folder` that import paths and output are relative to")
	check := flag.Bool("check", false, "compare with the files on disk instead of writing them")
	flag.Parse()

	if err := run(*root, *check); err != nil {
		fmt.Fprintln(os.Stderr, "protogen:", err)
		os.Exit(1)
	}
}

func run(root string, check bool) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	sources, err := findFiles(root, ".proto")
	if err != nil {
		return fmt.Errorf("look for .proto files: %w", err)
	}
	generated, err := generate(ctx, root, sources)
	if err != nil {
		return err
	}
	if check {
		return compare(root, generated)
	}
	return write(root, generated)
}

// findFiles lists the files below root whose names end in suffix, relative to
// root and with slashes. It stays out of folders that the go command ignores and
// out of nested modules, this one among them.
func findFiles(root, suffix string) ([]string, error) {
	var found []string
	err := fs.WalkDir(os.DirFS(root), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && path != "." && ignored(root, path) {
			return fs.SkipDir
		}
		if !entry.IsDir() && strings.HasSuffix(path, suffix) {
			found = append(found, path)
		}
		return nil
	})
	return found, err
}

func ignored(root, folder string) bool {
	name := filepath.Base(folder)
	if strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "testdata" || name == "node_modules" {
		return true
	}
	_, err := os.Stat(filepath.Join(root, folder, "go.mod"))
	return err == nil
}

// generate returns the content of every generated file by its path below root.
func generate(ctx context.Context, root string, sources []string) (map[string][]byte, error) {
	request, err := compile(ctx, root, sources)
	if err != nil {
		return nil, fmt.Errorf("compile: %w", err)
	}
	generated := make(map[string][]byte)
	for _, p := range plugins {
		response, err := p.ask(ctx, request)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.tool, err)
		}
		for _, file := range response.GetFile() {
			generated[file.GetName()] = []byte(file.GetContent())
		}
	}
	return generated, nil
}

// compile parses and links the sources into a request that carries them and
// all that they import, dependencies first as the plugin contract demands.
func compile(ctx context.Context, root string, sources []string) (*pluginpb.CodeGeneratorRequest, error) {
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{root}}),
		SourceInfoMode: protocompile.SourceInfoStandard, // comments become Go comments
	}
	files, err := compiler.Compile(ctx, sources...)
	if err != nil {
		return nil, err
	}
	ordered := &fileOrder{seen: make(map[string]bool)}
	for _, file := range files {
		ordered.add(file)
	}
	return &pluginpb.CodeGeneratorRequest{FileToGenerate: sources, ProtoFile: ordered.files}, nil
}

// fileOrder collects files so that each comes after its imports.
type fileOrder struct {
	seen  map[string]bool
	files []*descriptorpb.FileDescriptorProto
}

func (o *fileOrder) add(file protoreflect.FileDescriptor) {
	if o.seen[file.Path()] {
		return
	}
	o.seen[file.Path()] = true
	for i := range file.Imports().Len() {
		o.add(file.Imports().Get(i).FileDescriptor)
	}
	o.files = append(o.files, protoutil.ProtoFromFileDescriptor(file))
}

// ask runs the plugin once: the request on its standard input, the response on
// its standard output.
func (p plugin) ask(ctx context.Context, request *pluginpb.CodeGeneratorRequest) (*pluginpb.CodeGeneratorResponse, error) {
	request = proto.CloneOf(request)
	if len(p.only) > 0 {
		request.FileToGenerate = slices.DeleteFunc(request.FileToGenerate, func(name string) bool { return !slices.Contains(p.only, name) })
	}
	request.Parameter = proto.String(strings.Join(append([]string{"module=" + module}, p.options...), ","))
	input, err := proto.Marshal(request)
	if err != nil {
		return nil, fmt.Errorf("encode request: %w", err)
	}
	command := exec.CommandContext(ctx, "go", "tool", p.tool)
	command.Stdin = bytes.NewReader(input)
	command.Stderr = os.Stderr
	output, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("run: %w", err)
	}
	var response pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(output, &response); err != nil {
		return nil, fmt.Errorf("decode response: %w", err)
	}
	if response.Error != nil {
		return nil, errors.New(response.GetError())
	}
	return &response, nil
}

func write(root string, generated map[string][]byte) error {
	for name, content := range generated {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// compare reports every generated file that is missing on disk, differs, or is
// there without a source.
func compare(root string, generated map[string][]byte) error {
	drifted, err := findFiles(root, ".pb.go")
	if err != nil {
		return fmt.Errorf("look for generated files: %w", err)
	}
	for name, content := range generated {
		onDisk, err := os.ReadFile(filepath.Join(root, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		i := slices.Index(drifted, name)
		switch {
		case i < 0:
			drifted = append(drifted, name)
		case bytes.Equal(onDisk, content):
			drifted = slices.Delete(drifted, i, i+1)
		}
	}
	if len(drifted) > 0 {
		slices.Sort(drifted)
		return fmt.Errorf("generated code has drifted from its .proto files; run make generate:\n\t%s", strings.Join(drifted, "\n\t"))
	}
	return nil
}
