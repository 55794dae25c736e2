// Package filestack is the stack `file`. An HTTP/2 file server sends the answer to a server stream
// as a file. This shows the lowest cost of sending bytes. The stack carries only server streams.
//
//  1. The client sends GET /SERVICE/METHOD/x, followed by the request in hexadecimal.
//  2. If the file does not exist, it is made (folder.go): the registered handler answers
//     once, and its messages are stored in gRPC's framing.
//  3. The file server, Go's own or Caddy in a process of its own (caddy.go), sends the
//     file. From the second call on, no handler runs.
//  4. The client reads the messages from the answer's body.
//
// The package must not know what the messages mean or that it is measured.
package filestack

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"wirelab.dev/internal/base/tuning"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/http"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/rpc/call/wire"
)

type adapter struct{ stack.HTTPStack }

// Stack is the stack `file`.
var Stack = adapter{stack.NewHTTPStack(stack.HTTPAdapter{
	Info: stack.Info{
		Name: name, Summary: "a file server over cleartext HTTP/2 sends a server stream's answer as a file: the lowest cost of sending bytes",
		Options: []scenario.Option{
			{Key: serverKey, Values: []string{goServer, Caddy.Name}, Default: goServer, Help: "go: net/http; caddy: " + Caddy.Package + " " + Caddy.Version + ", which `run --yardstick caddy` fetches and builds"},
		},
	},
	Plan: func(*scenario.Options) stack.HTTPPlan {
		return stack.HTTPPlan{
			Version: httpwire.HTTP2,
			Handler: func(methods *stack.Methods) (http.Handler, error) { return newFolder(methods) },
			Client:  func(wire *stack.HTTPClient) stack.Client { return &client{wire} },
			Settings: append(stack.MessageLimit(stack.MaxMessageBytes), tuning.Setting{
				Side: tuning.Client, Name: "bufio.NewReaderSize", Value: strconv.Itoa(readBufferBytes), Default: "4096", Why: "one read takes several HTTP/2 frames",
			}),
		}
	},
	Refuses: map[stack.Kind]error{stack.Unary: errOnlyServerStreams, stack.ClientStream: errOnlyServerStreams, stack.Bidi: errOnlyServerStreams},
})}

func (a adapter) NewServer(v scenario.Variant) (stack.Server, error) {
	server, err := a.HTTPStack.NewServer(v)
	if _, foreign := ForeignProgram(v); foreign && err == nil {
		return &caddy{}, nil
	}
	return server, err
}

func (a adapter) Settings(v scenario.Variant, t stack.Target) ([]tuning.Setting, error) {
	all, err := a.HTTPStack.Settings(v, t)
	if _, foreign := ForeignProgram(v); foreign {
		all = slices.Concat(caddySettings, tuning.SettingsOf(tuning.Client, all))
	}
	return all, err
}

type client struct{ *stack.HTTPClient }

var _ stack.Client = (*client)(nil)

func (*client) Invoke(context.Context, string, any, any, ...grpc.CallOption) error {
	return status.Error(codes.Unimplemented, errOnlyServerStreams.Error())
}

func (c *client) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	if stack.KindOf(desc) != stack.ServerStream {
		return nil, status.Error(codes.Unimplemented, errOnlyServerStreams.Error())
	}
	return &download{client: c, ctx: ctx, method: method}, nil
}

// readBufferBytes is the size of four default HTTP/2 frames (RFC 9113, section 6.5.2).
const readBufferBytes = 64 << 10

// download is the client's end of a server stream. It reads the messages from one file.
type download struct {
	client *client
	ctx    context.Context
	method string
	body   io.ReadCloser // nil until the answer begins
	from   *bufio.Reader
	data   []byte // bytes of the last message
	err    error  // the stream's final error
}

var _ grpc.ClientStream = (*download)(nil)

func (d *download) Context() context.Context     { return d.ctx }
func (d *download) CloseSend() error             { return nil } // does nothing: SendMsg has sent the whole request
func (d *download) Header() (metadata.MD, error) { return metadata.MD{}, nil }
func (d *download) Trailer() metadata.MD         { return metadata.MD{} }

// SendMsg implements grpc.ClientStream. It returns when the answer begins.
func (d *download) SendMsg(m any) error {
	message, err := stack.ProtoMessage(name, m)
	if err != nil {
		return err
	}
	if d.body != nil || d.err != nil {
		return status.Error(codes.Internal, "file: a server stream has exactly one request")
	}
	request, err := proto.Marshal(message)
	if err != nil {
		return status.Errorf(codes.Internal, "file: %v", err)
	}
	if err := checkLength(request); err != nil {
		return err
	}
	ask, err := http.NewRequestWithContext(d.ctx, http.MethodGet, d.client.Base+pathOf(d.method, request), http.NoBody)
	if err != nil {
		return status.Errorf(codes.Internal, "file: %v", err)
	}
	response, err := d.client.Do(ask) //nolint:bodyclose // method end closes the body
	if err != nil {
		return d.end(stack.FailContext(d.ctx, fmt.Errorf("file: %w", err)))
	}
	d.body = response.Body
	if response.StatusCode != http.StatusOK {
		return d.end(refusalError(response))
	}
	d.from = bufio.NewReaderSize(response.Body, readBufferBytes)
	return nil
}

func refusalError(response *http.Response) error {
	const most = 1 << 10
	words, _ := io.ReadAll(io.LimitReader(response.Body, most))
	code, err := strconv.Atoi(response.Header.Get(statusHeader))
	if err != nil || code <= int(codes.OK) || code > int(codes.Unauthenticated) {
		return status.Errorf(codes.Unknown, "file: the server answered %s: %s", response.Status, words)
	}
	return status.Error(codes.Code(code), strings.TrimSpace(string(words)))
}

func (d *download) RecvMsg(m any) error {
	message, err := stack.ProtoMessage(name, m)
	switch {
	case err != nil:
		return err
	case d.err != nil:
		return d.err
	case d.from == nil:
		return status.Error(codes.Internal, "file: RecvMsg before the request was sent")
	}
	if err := d.read(); err != nil {
		return d.end(err)
	}
	if err := proto.Unmarshal(d.data, message); err != nil {
		return d.end(status.Errorf(codes.Internal, "file: %v", err))
	}
	return nil
}

func (d *download) read() error {
	flags, size, err := wire.ReadPrefix(d.from)
	if errors.Is(err, io.EOF) {
		return io.EOF
	} else if err != nil {
		return stack.FailContext(d.ctx, fmt.Errorf("file: %w", err))
	}
	if flags != 0 { // no server of this stack compresses messages
		return status.Errorf(codes.Internal, "file: a message of the answer has the flag %#x, but this wire allows only 0", flags)
	}
	if size > stack.MaxMessageBytes {
		return status.Errorf(codes.ResourceExhausted, "file: a message of %d bytes is larger than the limit of %d", size, stack.MaxMessageBytes)
	}
	if int(size) > cap(d.data) {
		d.data = make([]byte, size)
	}
	d.data = d.data[:size]
	if _, err := io.ReadFull(d.from, d.data); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF // io.EOF would mean that the stream is complete
		}
		return stack.FailContext(d.ctx, fmt.Errorf("file: %w", err))
	}
	return nil
}

func (d *download) end(err error) error {
	if d.body != nil {
		_ = d.body.Close()
	}
	d.err = err
	return err
}
