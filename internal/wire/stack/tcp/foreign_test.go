package tcp

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	statuspb "google.golang.org/genproto/googleapis/rpc/status"

	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/workload/echo/echopb"
)

// dialRaw opens a connection that fails rather than waits.
func dialRaw(t testing.TB, address string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(patience))
	return conn
}

func expectEcho(t testing.TB, call caller, data string) {
	t.Helper()
	in := &echopb.Payload{Id: 7, Data: []byte(data), Timestamp: 1}
	out, err := call(in)
	if err != nil {
		t.Fatalf("echo: %v", err)
	}
	if !proto.Equal(in, out) {
		t.Errorf("sent %v, got %v", in, out)
	}
}

// The server answers a client that knows only lengths and messages.
func TestForeignPlainClient(t *testing.T) {
	conn := dialRaw(t, startEcho(t, "tcp"))
	end := newPlainEnd(conn, true)
	for _, data := range []string{"", "x", strings.Repeat("y", 1<<20)} {
		expectEcho(t, end.call, data)
	}
	// It may send its next call before the answer to the last has come.
	for id := range uint64(3) {
		if err := end.write(&echopb.Payload{Id: id}); err != nil {
			t.Fatal(err)
		}
	}
	for id := range uint64(3) {
		var out echopb.Payload
		if err := end.read(&out); err != nil || out.Id != id {
			t.Errorf("answer %d is %v, %v", id, &out, err)
		}
	}
}

// The client can call a server that knows only lengths and messages.
func TestForeignPlainServer(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go echoPlainly(listener, true)
	for variant, operations := range map[string]int{"tcp": 1, "tcp:buffers=pooled": 1, "tcp:framing=plain": 0} {
		target := stack.Target{Address: listener.Addr().String(), Operations: operations}
		client, err := Stack{}.NewClient(t.Context(), parse(t, variant), target)
		if err != nil {
			t.Fatalf("%s: %v", variant, err)
		}
		t.Cleanup(func() { client.Close() })
		call := callerOf(t, client)
		for _, data := range []string{"", "x", strings.Repeat("y", 1<<20)} {
			expectEcho(t, call, data)
		}
	}
}

// A failed call is answered with a marked length and a status, and the
// connection goes on.
func TestPlainFailure(t *testing.T) {
	conn := dialRaw(t, startEcho(t, "tcp"))
	write(t, conn, []byte{0, 0, 0, 1, 0xff}) // no message
	if got := readPlainFailure(t, conn); codes.Code(got.Code) != codes.Internal {
		t.Errorf("a message that is none is answered with %v", got)
	}
	expectEcho(t, newPlainEnd(conn, false).call, "after")
}

func TestPlainCallToSeveralOperations(t *testing.T) {
	server := newServer(settings{})
	methods := echopb.EchoService_ServiceDesc
	second := methods
	second.ServiceName += "Again"
	server.RegisterService(&methods, echo{})
	server.RegisterService(&second, echo{})
	conn := dialRaw(t, serve(t, server))
	write(t, conn, []byte{0, 0, 0, 0})
	got := readPlainFailure(t, conn)
	if codes.Code(got.Code) != codes.Unimplemented || !strings.Contains(got.Message, "framing=calls") {
		t.Errorf("the answer is %v, want one that says what to do", got)
	}
}

// A client that sends an oversize message gets the reason for the refusal, even if
// it is still sending when the server closes.
func TestOversizeIsRefusedWithReason(t *testing.T) {
	conn := dialRaw(t, startEcho(t, "tcp"))
	write(t, conn, binary.BigEndian.AppendUint32(nil, stack.MaxMessageBytes+1))
	write(t, conn, make([]byte, 1<<20))
	if got := readPlainFailure(t, conn); codes.Code(got.Code) != codes.ResourceExhausted {
		t.Errorf("the answer is %v, want ResourceExhausted", got)
	}
	if n, err := conn.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("the connection goes on after it: %d bytes, %v", n, err)
	}
}

// Calls of both framings take turns on one connection.
func TestFramingsShareAConnection(t *testing.T) {
	for _, variant := range []string{"tcp", "tcp:buffers=pooled"} {
		dialer := &conn.Dialer{}
		target := stack.Target{Address: startEcho(t, variant), Operations: 1, Dialer: dialer}
		client, err := Stack{}.NewClient(t.Context(), parse(t, variant), target)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { client.Close() })
		stub := echopb.NewEchoServiceClient(client)
		withMetadata := metadata.AppendToOutgoingContext(t.Context(), "key", "value")
		for range 3 {
			expectEcho(t, callerOf(t, client), "plain")
			if _, err := stub.Echo(withMetadata, &echopb.Payload{Id: 1}); err != nil {
				t.Errorf("%s: with metadata: %v", variant, err)
			}
			var header metadata.MD
			if _, err := stub.Echo(t.Context(), &echopb.Payload{Id: 1}, grpc.Header(&header)); err != nil {
				t.Errorf("%s: for a header: %v", variant, err)
			}
		}
		if counts := dialer.Counts(); counts.Opened != 1 {
			t.Errorf("%s: %+v, want one connection", variant, counts)
		}
	}
}

func TestAnswerLimit(t *testing.T) {
	for variant, operations := range map[string]int{"tcp": 1, "tcp:framing=calls": 1} {
		client, err := Stack{}.NewClient(t.Context(), parse(t, variant), stack.Target{Address: startEcho(t, variant), Operations: operations})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { client.Close() })
		in := &echopb.Payload{Data: make([]byte, 1000)}
		_, err = echopb.NewEchoServiceClient(client).Echo(t.Context(), in, grpc.MaxCallRecvMsgSize(999))
		if status.Code(err) != codes.ResourceExhausted {
			t.Errorf("%s: an answer over the caller's limit ended with %v", variant, err)
		}
		expectEcho(t, callerOf(t, client), "after")
	}
}

// The server behaves as the examples of docs/wire-tcp.md say, byte for byte. In a
// block marked `wire` the client sends the lines with >, the server those with <.
func TestDocumentedExamples(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/wire-tcp.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(page), "```wire\n")[1:]
	if len(blocks) < 3 {
		t.Fatalf("the page has %d examples", len(blocks))
	}
	address := startEcho(t, "tcp")
	for _, block := range blocks {
		block, _, _ = strings.Cut(block, "```")
		conn := dialRaw(t, address)
		for line := range strings.Lines(block) {
			line, _, _ = strings.Cut(line, "#")
			want, err := hex.DecodeString(strings.Join(strings.Fields(line)[1:], ""))
			if err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			switch line[0] {
			case '>':
				write(t, conn, want)
			case '<':
				got := make([]byte, len(want))
				if _, err := io.ReadFull(conn, got); err != nil || !bytes.Equal(got, want) {
					t.Errorf("docs/wire-tcp.md has %x, the server sent %x, %v", want, got, err)
				}
			default:
				t.Errorf("a line of an example begins with %q", line[:1])
			}
		}
	}
}

func write(t testing.TB, conn net.Conn, b []byte) {
	t.Helper()
	if _, err := conn.Write(b); err != nil {
		t.Fatal(err)
	}
}

func readPlainFailure(t testing.TB, conn net.Conn) *statuspb.Status {
	t.Helper()
	var length [4]byte
	if _, err := io.ReadFull(conn, length[:]); err != nil {
		t.Fatal(err)
	}
	marked := binary.BigEndian.Uint32(length[:])
	if marked&failedBit == 0 {
		t.Fatalf("the answer's length %#x is not marked as a failure", marked)
	}
	encoded := make([]byte, marked&^failedBit)
	var s statuspb.Status
	if _, err := io.ReadFull(conn, encoded); err != nil {
		t.Fatal(err)
	}
	if err := proto.Unmarshal(encoded, &s); err != nil {
		t.Fatal(err)
	}
	return &s
}
