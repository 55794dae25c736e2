package creditrpc

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// TestThePageShowsWhatIsSent holds the conversation of docs/creditrpc.md against what a client
// and a server send, byte for byte. Each block marked `wire` is one step of it.
func TestThePageShowsWhatIsSent(t *testing.T) {
	page, err := os.ReadFile("../../docs/creditrpc.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(page), "```wire\n")[1:]
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t)
		steps := []func(*testing.T, *wire){greet, callWell, callInVain, stream, sendInParts, giveUp, stayAlive, leave}
		if len(blocks) != len(steps) {
			t.Errorf("the page has %d blocks, and this test %d steps", len(blocks), len(steps))
		}
		for i, step := range steps {
			step(t, w)
			synctest.Wait()
			up, down := w.take()
			if i >= len(blocks) {
				t.Errorf("step %d:\n> %s\n< %s", i, compress(up), compress(down))
				continue
			}
			wantUp, wantDown := readBlock(t, blocks[i])
			if !bytes.Equal(up, wantUp) {
				t.Errorf("block %d: the client sends\n%s\nand the page has\n%s", i, compress(up), compress(wantUp))
			}
			if !bytes.Equal(down, wantDown) {
				t.Errorf("block %d: the server sends\n%s\nand the page has\n%s", i, compress(down), compress(wantDown))
			}
		}
	})
}

func greet(t *testing.T, w *wire) {
	if err := w.client.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func callWell(t *testing.T, w *wire) {
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(t.Context(), "echo", "x"), time.Second)
	defer cancel()
	if _, err := w.stub.UnaryCall(ctx, request([]byte("hi"))); err != nil {
		t.Error(err)
	}
}

func callInVain(t *testing.T, w *wire) {
	in := request([]byte("why"))
	in.ResponseStatus = &testgrpc.EchoStatus{Code: int32(codes.NotFound), Message: "gone"}
	if _, err := w.stub.UnaryCall(t.Context(), in); status.Code(err) != codes.NotFound {
		t.Error(err)
	}
}

func stream(t *testing.T, w *wire) {
	both, err := w.stub.FullDuplexCall(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := both.Send(&testgrpc.StreamingOutputCallRequest{Payload: &testgrpc.Payload{Body: []byte("hi")}}); err != nil {
		t.Error(err)
	}
	if _, err := both.Recv(); err != nil {
		t.Error(err)
	}
	_ = both.CloseSend()
	_, _ = both.Recv()
}

func sendInParts(t *testing.T, w *wire) {
	up, err := w.stub.StreamingInputCall(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := up.Send(&testgrpc.StreamingInputCallRequest{Payload: &testgrpc.Payload{Body: bytes.Repeat([]byte("x"), 100_000)}}); err != nil {
		t.Error(err)
	}
	synctest.Wait() // until the server has read it
	if _, err := up.CloseAndRecv(); err != nil {
		t.Error(err)
	}
}

func giveUp(t *testing.T, w *wire) {
	in := request(nil)
	in.ResponseStatus = &testgrpc.EchoStatus{Message: "wait"}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { // ends with the call
		synctest.Wait()
		cancel()
	}()
	if _, err := w.stub.UnaryCall(ctx, in); status.Code(err) != codes.Canceled {
		t.Error(err)
	}
}

func stayAlive(_ *testing.T, w *wire) { time.Sleep(w.silence + time.Second) }

func leave(_ *testing.T, w *wire) { w.server.GracefulStop() }

// A wire holds a server, a client, and the bytes between them.
type wire struct {
	server  *Server
	client  *Client
	stub    testgrpc.TestServiceClient
	silence time.Duration

	mu       sync.Mutex
	up, down []byte
}

func newWire(t *testing.T) *wire {
	w := &wire{silence: time.Hour, server: NewServer(Window(0), StreamWindow(0), MaxCalls(8))}
	testgrpc.RegisterTestServiceServer(w.server, new(service))
	near, far := net.Pipe()
	lis := &oneConn{conn: make(chan net.Conn, 1), closed: make(chan struct{})}
	lis.conn <- far
	served := make(chan error, 1)
	go func() { served <- w.server.Serve(lis) }()
	var err error
	w.client, err = NewClient("127.0.0.1:1", WithWindow(0), WithStreamWindow(0), WithKeepAlive(w.silence, time.Hour),
		WithDialer(func(context.Context, string) (net.Conn, error) { return &tapped{near, w}, nil }))
	if err != nil {
		t.Fatal(err)
	}
	w.stub = testgrpc.NewTestServiceClient(w.client)
	t.Cleanup(func() {
		_ = w.client.Close()
		w.server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return w
}

// take returns the bytes sent since its last call.
func (w *wire) take() (up, down []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	up, down = w.up, w.down
	w.up, w.down = nil, nil
	return up, down
}

// tapped is the client's end of the connection. It records the bytes that pass.
type tapped struct {
	net.Conn
	w *wire
}

func (c *tapped) Write(b []byte) (int, error) {
	c.w.mu.Lock()
	c.w.up = append(c.w.up, b...)
	c.w.mu.Unlock()
	return c.Conn.Write(b)
}

func (c *tapped) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.w.mu.Lock()
	c.w.down = append(c.w.down, b[:n]...)
	c.w.mu.Unlock()
	return n, err
}

// oneConn is a listener whose only connection is there.
type oneConn struct {
	conn   chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (l *oneConn) Accept() (net.Conn, error) {
	select {
	case c := <-l.conn:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *oneConn) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *oneConn) Addr() net.Addr { return &net.TCPAddr{} }

// readBlock reads the lines of a block: > or <, then hex. "[n x]" stands for n bytes "x".
func readBlock(t *testing.T, block string) (up, down []byte) {
	t.Helper()
	block, _, _ = strings.Cut(block, "```")
	for line := range strings.Lines(block) {
		line, _, _ = strings.Cut(line, "#")
		line = repeated.ReplaceAllStringFunc(line, func(s string) string {
			n, _ := strconv.Atoi(repeated.FindStringSubmatch(s)[1])
			return strings.Repeat("78", n)
		})
		if strings.TrimSpace(line) == "" {
			continue
		}
		bytes, err := hex.DecodeString(strings.Join(strings.Fields(line)[1:], ""))
		if err != nil {
			t.Fatalf("%.100q: %v", line, err)
		}
		if line[0] == '>' {
			up = append(up, bytes...)
		} else {
			down = append(down, bytes...)
		}
	}
	return up, down
}

var repeated = regexp.MustCompile(`\[(\d+) x\]`)

// compress is bytes as the page has them.
func compress(b []byte) string {
	long := regexp.MustCompile(`(78 ?){100,}`)
	return long.ReplaceAllStringFunc(fmt.Sprintf("% x", b), func(s string) string {
		return fmt.Sprintf("[%d x] ", strings.Count(s, "78"))
	})
}

// TestThePagesDefaults holds the page's table of defaults against the code.
func TestThePagesDefaults(t *testing.T) {
	page, err := os.ReadFile("../../docs/creditrpc.md")
	if err != nil {
		t.Fatal(err)
	}
	server, client := defaultServerOptions(), defaultClientOptions()
	s, c := server.link(), client.link()
	_, table, _ := strings.Cut(string(page), "| setting | server | client |\n| --- | --- | --- |\n")
	table = strings.ReplaceAll(table, ",", "")
	want := ""
	for _, row := range []struct {
		name           string
		server, client int64
	}{
		{"Window", s.Window, c.Window},
		{"PerStream", s.PerStream, c.PerStream},
		{"Calls", s.Calls, c.Calls},
		{"MaxMessage", int64(s.MaxMessage), int64(c.MaxMessage)},
		{"MaxMeta", int64(s.MaxMeta), int64(c.MaxMeta)},
	} {
		want += fmt.Sprintf("| %s | %d | %d |\n", row.name, row.server, row.client)
	}
	if table != want {
		t.Errorf("the page has\n%s\nand the code\n%s", table, want)
	}
}

// TestSecurityPage checks that the tests that SECURITY.md names exist, and its figures.
func TestSecurityPage(t *testing.T) {
	page, err := os.ReadFile("SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	server, client := defaultServerOptions(), defaultClientOptions()
	for _, figure := range []string{
		fmt.Sprintf("`MaxReceive`, %d MiB", server.maxReceive>>20),
		fmt.Sprintf("`MaxCalls` handlers, %d", server.calls),
		fmt.Sprintf("`MaxMetadata`, %d KiB", server.maxMeta>>10),
		fmt.Sprintf("`StreamWindow`, %d KiB", server.perStream>>10),
		fmt.Sprintf("share %d MiB", server.room>>20),
		fmt.Sprintf("`Window`, %d MiB", server.window>>20),
		fmt.Sprintf("`HandshakeTimeout`, %.0f s", server.handshakeTimeout.Seconds()),
		fmt.Sprintf("`WithConnectTimeout`, %.0f s", client.dialTimeout.Seconds()),
		fmt.Sprintf("a call on %d connections", maxTries),
	} {
		if !bytes.Contains(bytes.ReplaceAll(page, []byte(",0"), []byte("0")), []byte(figure)) {
			t.Errorf("SECURITY.md does not say %q", figure)
		}
	}
	var sources []byte
	for _, pattern := range []string{"*_test.go", "internal/*/*_test.go"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			source, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			sources = append(sources, source...)
		}
	}
	named := regexp.MustCompile("`((?:Test|Fuzz)\\w+)`").FindAllSubmatch(page, -1)
	if len(named) < 30 {
		t.Errorf("SECURITY.md names %d tests, which cannot be all", len(named))
	}
	for _, name := range named {
		if !bytes.Contains(sources, slices.Concat([]byte("\nfunc "), name[1], []byte("("))) {
			t.Errorf("SECURITY.md names %s, which does not exist", name[1])
		}
	}
}
