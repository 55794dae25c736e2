package fastgrpc

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"

	"wirelab.dev/rpc/call/wire"
)

// metadataEcho answers an EmptyCall with what its handler sees of the request's header.
type metadataEcho struct{ echo }

func (metadataEcho) EmptyCall(ctx context.Context, _ *testgrpc.Empty) (*testgrpc.Empty, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	return nil, fmt.Errorf("authority %q, host %q, x-bin %q", md[":authority"], md["host"], md["x-bin"])
}

// TestRequestHeaders compares the answers of both servers to unusual headers.
func TestRequestHeaders(t *testing.T) {
	theirs := serveTest(t, theirServer(), metadataEcho{})
	server := NewServer()
	ours := serveTest(t, server, metadataEcho{})
	var failed uint64
	for _, extra := range [][]string{
		{":authority", "a"},
		{":authority", "a", "host", "b"},
		{"host", "b"},
		{"host", "b", "host", "c"},
		{},
		{":authority", "a", "x-bin", "AAA"},
		{":authority", "a", "x-bin", "no base64!"},
		{":authority", "a", "x-bin", strings.Repeat(",", 3000)},
		{":authority", "a", "grpc-timeout", "1"},
		{":authority", "a", "grpc-timeout", "100000000S"},
	} {
		fields := []string{":method", "POST", ":scheme", "http", ":path", "/grpc.testing.TestService/EmptyCall"}
		for i := 0; i < len(extra) && extra[i][0] == ':'; i += 2 {
			fields, extra = append(fields, extra[:2]...), extra[2:]
		}
		fields = append(fields, "content-type", "application/grpc", "te", "trailers")
		fields = append(fields, extra...)
		want, got := answerTo(t, theirs, fields), answerTo(t, ours, fields)
		if want != got {
			t.Errorf("%q: the answer is %s, grpc-go's %s", fields[6:], got, want)
		}
		failed++
		eventually(t, "for the call to be counted", func() bool { return server.Counters().CallsFailed == failed })
	}
}

// answerTo sends an empty message and returns the status and text of the answer.
func answerTo(t *testing.T, target string, fields []string) string {
	t.Helper()
	nc, err := net.Dial("tcp", strings.TrimPrefix(target, "passthrough:///"))
	if err != nil {
		t.Fatal(err)
	}
	a := newAttacker(nc)
	defer func() { _ = nc.Close() }()
	_, err = nc.Write(append([]byte(http2.ClientPreface), inMemory(func(fr *http2.Framer) {
		_ = fr.WriteSettings()
		_ = fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block(fields...), EndHeaders: true})
		_ = fr.WriteData(1, true, make([]byte, wire.PrefixLen))
	})...))
	if err != nil {
		t.Fatal(err)
	}
	for {
		frame, err := a.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		switch f := frame.(type) {
		case *http2.RSTStreamFrame:
			return f.ErrCode.String()
		case *http2.MetaHeadersFrame:
			if !f.StreamEnded() {
				continue
			}
			code, text := "", ""
			for _, h := range f.RegularFields() {
				switch h.Name {
				case wire.FieldStatus:
					code = h.Value
				case wire.FieldMessage:
					text = h.Value
				}
			}
			if code != "2" { // grpc-go's error texts differ
				text = ""
			}
			return fmt.Sprintf("status %s %s", code, text)
		}
	}
}
