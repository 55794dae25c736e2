package filestack

import (
	"bufio"
	"context"
	"encoding/binary"
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

	"wirelab.dev/internal/stack"
)

// What strangers may make a folder hold.
const (
	maxFiles     = 16
	maxFileBytes = 1 << 30
)

// prefixBytes is what gRPC puts before a message: a flag, and its length.
const prefixBytes = 5

// maxRequestBytes is what a file's name has room for.
const maxRequestBytes = 120

// statusHeader carries the code of a call that failed.
const statusHeader = "Grpc-Status"

// folder holds the answers to what was asked, a file each, and makes those that are
// missing. It serves them itself, or for a file server that has not got one yet.
type folder struct {
	path    string
	methods *stack.Methods

	mu    sync.Mutex // of making files
	files int
}

var _ http.Handler = (*folder)(nil)

// pathOf is where the answer to a request lies.
func pathOf(method string, request []byte) string { return method + "/x" + hex.EncodeToString(request) }

// ServeHTTP answers with a file.
func (f *folder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		http.Error(w, "a file server is asked with GET", http.StatusMethodNotAllowed)
		return
	}
	path, err := f.find(r.Context(), r.URL.Path)
	if err != nil {
		failed := status.Convert(err)
		w.Header().Set(statusHeader, strconv.Itoa(int(failed.Code())))
		http.Error(w, failed.Message(), http.StatusBadRequest)
		return
	}
	http.ServeFile(w, r, path)
}

// find is the file of that path, which it makes where there is none.
func (f *folder) find(ctx context.Context, url string) (string, error) {
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
		return path, nil // made meanwhile
	}
	if f.files == maxFiles {
		return "", status.Errorf(codes.ResourceExhausted, "file: %d answers are kept already, and no more", maxFiles)
	}
	if err := makeFile(ctx, path, method, request); err != nil {
		return "", err
	}
	f.files++
	return path, nil
}

func (f *folder) parse(url string) (*stack.Method, []byte, error) {
	name, encoded, _ := strings.Cut(url, "/x")
	method := f.methods.Find(name)
	if method == nil {
		return nil, nil, status.Errorf(codes.Unimplemented, "file: there is no operation %.200q", name)
	}
	if method.Kind != stack.ServerStream {
		return nil, nil, status.Error(codes.Unimplemented, errOnlySends.Error())
	}
	request, err := hex.DecodeString(encoded)
	if err != nil {
		return nil, nil, status.Errorf(codes.InvalidArgument, "file: the request in the path: %v", err)
	}
	return method, request, checkLength(request)
}

func checkLength(request []byte) error {
	if len(request) > maxRequestBytes {
		return status.Errorf(codes.ResourceExhausted, "file: a request of %d bytes is too long for a file's name: the most is %d", len(request), maxRequestBytes)
	}
	return nil
}

// makeFile lets the handler answer into a file, which appears when it is whole.
func makeFile(ctx context.Context, path string, method *stack.Method, request []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("file: %w", err)
	}
	file, err := os.CreateTemp(filepath.Dir(path), "part-*")
	if err != nil {
		return fmt.Errorf("file: %w", err)
	}
	defer func() { _ = os.Remove(file.Name()) }() // where it has kept that name
	out := &answer{ctx: ctx, request: request, to: bufio.NewWriter(file)}
	failed := method.Stream.Handler(method.Service, out)
	err = errors.Join(out.to.Flush(), file.Close())
	switch {
	case failed != nil:
		return failed // as the handler says it
	case err != nil:
		return fmt.Errorf("file: %w", err)
	}
	return os.Rename(file.Name(), path)
}

// answer is a server stream whose caller is a file.
type answer struct {
	ctx     context.Context
	request []byte
	asked   bool
	to      *bufio.Writer
	size    int
}

var _ grpc.ServerStream = (*answer)(nil)

func (a *answer) Context() context.Context { return a.ctx }

// RecvMsg implements grpc.ServerStream: there is one request.
func (a *answer) RecvMsg(m any) error {
	message, err := protobuf(m)
	switch {
	case err != nil:
		return err
	case a.asked:
		return io.EOF
	}
	a.asked = true
	if err := proto.Unmarshal(a.request, message); err != nil {
		return status.Errorf(codes.InvalidArgument, "file: the request: %v", err)
	}
	return nil
}

// SendMsg implements grpc.ServerStream.
func (a *answer) SendMsg(m any) error {
	message, err := protobuf(m)
	if err != nil {
		return err
	}
	data, err := proto.Marshal(message)
	if err != nil {
		return status.Errorf(codes.Internal, "file: %v", err)
	}
	if a.size += prefixBytes + len(data); a.size > maxFileBytes {
		return status.Errorf(codes.ResourceExhausted, "file: an answer of more than %d bytes", maxFileBytes)
	}
	var prefix [prefixBytes]byte
	binary.BigEndian.PutUint32(prefix[1:], uint32(len(data)))
	_, err = a.to.Write(prefix[:])
	if err == nil {
		_, err = a.to.Write(data)
	}
	return err
}

// A file has no place for metadata.

func (*answer) SetHeader(metadata.MD) error {
	return status.Error(codes.Unimplemented, "file: no metadata")
}

func (*answer) SendHeader(metadata.MD) error {
	return status.Error(codes.Unimplemented, "file: no metadata")
}
func (*answer) SetTrailer(metadata.MD) {}

func protobuf(m any) (proto.Message, error) {
	message, is := m.(proto.Message)
	if !is {
		return nil, status.Errorf(codes.Internal, "file: %T is not a protobuf message", m)
	}
	return message, nil
}
