package filestack

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/rpc/call/wire"
)

const (
	// These limits bound a folder, because clients' requests create its files.
	maxFiles        = 16
	maxFileBytes    = 1 << 30
	maxRequestBytes = 120 // the request must fit into a file name

	statusHeader = "Grpc-Status"
)

// folder contains one file per request, with the answer. It serves the files or makes them for
// Caddy.
type folder struct {
	path    string
	methods *stack.Methods

	mu    sync.Mutex // locked while a file is made
	files int
}

var _ http.Handler = (*folder)(nil)

func newFolder(methods *stack.Methods) (*folder, error) {
	path, err := os.MkdirTemp("", "wirelab-file-")
	return &folder{path: path, methods: methods}, err
}

func (f *folder) Close() error { return os.RemoveAll(f.path) }

func pathOf(method string, request []byte) string { return method + "/x" + hex.EncodeToString(request) }

func (f *folder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		http.Error(w, "this server accepts only GET requests", http.StatusMethodNotAllowed)
		return
	}
	path, err := f.findOrMake(r.Context(), r.URL.Path)
	if err != nil {
		failed := status.Convert(err)
		w.Header().Set(statusHeader, strconv.Itoa(int(failed.Code())))
		http.Error(w, failed.Message(), http.StatusBadRequest)
		return
	}
	http.ServeFile(w, r, path)
}

// findOrMake returns the path of a request's file. It makes the file if it does not exist.
func (f *folder) findOrMake(ctx context.Context, url string) (string, error) {
	method, request, err := f.parse(url)
	if err != nil {
		return "", err
	}
	path := filepath.Join(f.path, filepath.FromSlash(pathOf(method.FullName, request)))
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, err := os.Stat(path); err == nil {
		return path, nil // another call has made the file meanwhile
	}
	if f.files == maxFiles {
		return "", status.Errorf(codes.ResourceExhausted, "file: the limit of %d different requests is reached", maxFiles)
	}
	if err := makeFile(ctx, path, method, request); err != nil {
		return "", err
	}
	f.files++
	return path, nil
}

func (f *folder) parse(url string) (*stack.Method, []byte, error) {
	operation, encoded, _ := strings.Cut(url, "/x")
	method := f.methods.Find(operation)
	if method == nil {
		return nil, nil, status.Errorf(codes.Unimplemented, "file: unknown operation %.200q", operation)
	}
	if method.Kind != stack.ServerStream {
		return nil, nil, status.Error(codes.Unimplemented, errOnlyServerStreams.Error())
	}
	request, err := hex.DecodeString(encoded)
	if err != nil {
		return nil, nil, status.Errorf(codes.InvalidArgument, "file: decode the request in the path: %v", err)
	}
	return method, request, checkLength(request)
}

func checkLength(request []byte) error {
	if len(request) > maxRequestBytes {
		return status.Errorf(codes.ResourceExhausted, "file: a request of %d bytes does not fit into a file's name: the limit is %d", len(request), maxRequestBytes)
	}
	return nil
}

// makeFile writes a handler's answer to a file. The file gets its name only when it is complete.
func makeFile(ctx context.Context, path string, method *stack.Method, request []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("file: %w", err)
	}
	file, err := os.CreateTemp(filepath.Dir(path), "part-*")
	if err != nil {
		return fmt.Errorf("file: %w", err)
	}
	defer func() { _ = os.Remove(file.Name()) }() // does nothing if the file was renamed
	out := &answer{ctx: ctx, request: request, to: bufio.NewWriter(file)}
	failed := method.Stream.Handler(method.Service, out)
	err = errors.Join(out.to.Flush(), file.Close())
	switch {
	case failed != nil:
		return failed
	case err != nil:
		return fmt.Errorf("file: %w", err)
	}
	return os.Rename(file.Name(), path)
}

// answer is the handler's end of a stream. It writes the messages to a file.
type answer struct {
	ctx     context.Context
	request []byte
	taken   bool
	to      *bufio.Writer
	size    int
}

var _ grpc.ServerStream = (*answer)(nil)

func (a *answer) Context() context.Context { return a.ctx }

// RecvMsg implements grpc.ServerStream. It returns the only request.
func (a *answer) RecvMsg(m any) error {
	message, err := stack.ProtoMessage(name, m)
	switch {
	case err != nil:
		return err
	case a.taken:
		return io.EOF
	}
	a.taken = true
	if err := proto.Unmarshal(a.request, message); err != nil {
		return status.Errorf(codes.InvalidArgument, "file: cannot decode the request: %v", err)
	}
	return nil
}

func (a *answer) SendMsg(m any) error {
	message, err := stack.ProtoMessage(name, m)
	if err != nil {
		return err
	}
	data, err := proto.MarshalOptions{}.MarshalAppend(make([]byte, wire.PrefixLen), message)
	if err != nil {
		return status.Errorf(codes.Internal, "file: %v", err)
	}
	if a.size += len(data); a.size > maxFileBytes {
		return status.Errorf(codes.ResourceExhausted, "file: the answer is larger than the limit of %d bytes", maxFileBytes)
	}
	wire.PutPrefix(data, false)
	_, err = a.to.Write(data)
	return err
}

// The following methods refuse metadata, because a file has no place for it.

var errMetadata = status.Error(codes.Unimplemented, "file: this wire carries no metadata")

func (*answer) SetHeader(metadata.MD) error  { return errMetadata }
func (*answer) SendHeader(metadata.MD) error { return errMetadata }
func (*answer) SetTrailer(metadata.MD)       {}

const name = "file"

var errOnlyServerStreams = fmt.Errorf("file: a file server only sends, so this stack carries only server streams; tcp and grpc carry all kinds: %w", stack.ErrUnsupported)
