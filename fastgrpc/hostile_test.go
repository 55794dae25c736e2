package fastgrpc

import (
	"bytes"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
)

// attack opens a raw connection and lets f misuse it. It returns the code of the
// GOAWAY that the server answered with, or -1 where it only closed.
func attack(t *testing.T, target string, f func(nc net.Conn, fr *http2.Framer) error) int {
	t.Helper()
	nc, err := net.Dial("tcp", strings.TrimPrefix(target, "passthrough:///"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = nc.Close() }()
	_ = nc.SetDeadline(time.Now().Add(10 * time.Second))
	fr := http2.NewFramer(nc, nc)
	code := make(chan int, 1)
	go func() {
		for {
			frame, err := fr.ReadFrame()
			if err != nil {
				code <- -1
				return
			}
			if g, ok := frame.(*http2.GoAwayFrame); ok {
				code <- int(g.ErrCode)
				return
			}
		}
	}()
	if _, err := io.WriteString(nc, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	if err := fr.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	for err == nil {
		err = f(nc, fr)
	}
	return <-code
}

func headerBlock(path string) []byte {
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	for _, f := range [][2]string{
		{":method", "POST"},
		{":scheme", "http"},
		{":path", path},
		{":authority", "x"},
		{"content-type", "application/grpc"},
		{"te", "trailers"},
	} {
		_ = enc.WriteField(hpack.HeaderField{Name: f[0], Value: f[1], Sensitive: true})
	}
	return block.Bytes()
}

// TestHostilePeers: whatever a peer does on its connection, others are served, and
// afterwards the server holds nothing for it.
func TestHostilePeers(t *testing.T) {
	s, target := startFast(t, HandshakeTimeout(200*time.Millisecond))
	c := testgrpc.NewTestServiceClient(dialFast(t, target))
	block := headerBlock("/grpc.testing.TestService/FullDuplexCall")
	id := uint32(1)
	attacks := map[string]func(nc net.Conn, fr *http2.Framer) error{
		"rapid reset": func(nc net.Conn, _ *http2.Framer) error {
			var many bytes.Buffer
			fr := http2.NewFramer(&many, nil)
			for range 500 {
				id += 2
				// Neither fails: they write to memory.
				_ = fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block, EndHeaders: true})
				_ = fr.WriteRSTStream(id, http2.ErrCodeCancel)
			}
			_, err := nc.Write(many.Bytes())
			return err
		},
		"pings":         func(_ net.Conn, fr *http2.Framer) error { return fr.WritePing(false, [8]byte{}) },
		"settings":      func(_ net.Conn, fr *http2.Framer) error { return fr.WriteSettings() },
		"continuations": continuationFlood(block),
		"half-closed":   func(nc net.Conn, _ *http2.Framer) error { _ = nc.(*net.TCPConn).CloseWrite(); return io.EOF },
		"another version": func(nc net.Conn, _ *http2.Framer) error {
			_, err := io.WriteString(nc, "GET / HTTP/1.1\r\n\r\n")
			return err
		},
	}
	for name, f := range attacks {
		t.Run(name, func(t *testing.T) {
			ended := make(chan int, 1)
			go func() {
				ended <- attack(t, target, f)
			}()
			for done := false; !done; {
				began := time.Now()
				if _, err := c.UnaryCall(testContext(t), request(make([]byte, 1000))); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took > 2*time.Second {
					t.Errorf("another's call took %v", took)
				}
				select {
				case code := <-ended:
					done = true
					// A reset may overtake the GOAWAY, which then counts as a close.
					switch code {
					case -1, int(http2.ErrCodeEnhanceYourCalm), int(http2.ErrCodeProtocol), int(http2.ErrCodeFrameSize):
					default:
						t.Errorf("the connection ended with %v", http2.ErrCode(code))
					}
				default:
				}
			}
		})
	}
	for range 500 {
		if len(s.Conns()) == 1 {
			break
		}
		time.Sleep(10 * time.Millisecond) // for the last attacker's connection to go
	}
	if conns := s.Conns(); len(conns) != 1 {
		t.Errorf("%d connections are left of one", len(conns))
	}
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	if memory.HeapAlloc > 64<<20 {
		t.Errorf("the heap holds %d bytes", memory.HeapAlloc)
	}
}

func continuationFlood(block []byte) func(net.Conn, *http2.Framer) error {
	begun := false
	return func(_ net.Conn, fr *http2.Framer) error {
		if !begun {
			begun = true
			return fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block})
		}
		return fr.WriteContinuation(1, false, nil)
	}
}

// TestSilentPeer: a connection that never begins HTTP/2 is closed in time.
func TestSilentPeer(t *testing.T) {
	_, target := startFast(t, HandshakeTimeout(50*time.Millisecond))
	nc, err := net.Dial("tcp", strings.TrimPrefix(target, "passthrough:///"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = nc.Close() }()
	_ = nc.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := io.Copy(io.Discard, nc); err != nil {
		t.Errorf("the server does not close: %v", err)
	}
}
