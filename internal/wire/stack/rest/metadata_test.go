package rest

import (
	"bufio"
	"bytes"
	"maps"
	"net/http"
	"net/textproto"
	"slices"
	"testing"

	"google.golang.org/grpc/metadata"

	"wirelab.dev/internal/wire/stack"
)

func equalMetadata(a, b metadata.MD) bool { return maps.EqualFunc(a, b, slices.Equal) }

// FuzzHeaderToMetadata reads a header as it may come from anyone. What has
// become metadata must survive the way back.
func FuzzHeaderToMetadata(f *testing.F) {
	for _, header := range []string{
		"X-Request-Id: 7\r\n",
		"X-Multi: a, b\r\nX-Multi: c\r\nX-Empty:\r\n",
		"X-Raw-Bin: AP8=\r\nX-Two-Bin: AQ,AQ==\r\nX-Bad-Bin: !\r\n",
		"Trailer-X-Left: 3\r\nGrpc-Timeout: 5S\r\nHost: example.org\r\n",
		"x y: z\r\n-Bin: AQ\r\n",
	} {
		f.Add([]byte(header))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		reader := textproto.NewReader(bufio.NewReader(bytes.NewReader(append(text, "\r\n\r\n"...))))
		mime, err := reader.ReadMIMEHeader()
		if err != nil {
			t.Skip("no header") // of what the fuzzer makes, not of the tests
		}
		for _, prefix := range []string{"", trailerPrefix} {
			md := stack.MetadataIn(http.Header(mime), prefix, isReserved)
			if checkMetadata(md) != nil {
				continue // text beyond ASCII comes in but does not go out
			}
			back := http.Header{}
			stack.PutMetadata(back, prefix, md, isReserved)
			if again := stack.MetadataIn(back, prefix, isReserved); !equalMetadata(withValues(md), again) {
				t.Errorf("%q became %q", md, again)
			}
		}
	})
}

// withValues leaves out keys whose every value was damaged.
func withValues(md metadata.MD) metadata.MD {
	var kept metadata.MD
	for key, values := range md {
		if len(values) > 0 {
			if kept == nil {
				kept = metadata.MD{}
			}
			kept[key] = values
		}
	}
	return kept
}

// FuzzMetadataToHeader sends one key through a real header.
func FuzzMetadataToHeader(f *testing.F) {
	f.Add("x-request-id", "7", "")
	f.Add("raw-bin", "\x00\xff", "")
	f.Add("content-type", "text/html", "x")
	f.Add("grpc-timeout", "1S", "")
	f.Add("UPPER", "x", "y")
	f.Add("a.b_c-d", "comma, comma", " space ")
	f.Fuzz(func(t *testing.T, key, first, second string) {
		md := metadata.MD{key: {first, second}}
		if checkMetadata(md) != nil {
			return
		}
		header := http.Header{}
		stack.PutMetadata(header, "", md, isReserved)
		var wire bytes.Buffer
		if err := header.Write(&wire); err != nil {
			t.Fatal(err)
		}
		wire.WriteString("\r\n")
		read, err := textproto.NewReader(bufio.NewReader(&wire)).ReadMIMEHeader()
		if err != nil {
			t.Fatalf("%q made a header that cannot be read: %v", md, err)
		}
		got := stack.MetadataIn(http.Header(read), "", isReserved)
		if len(header) == 0 {
			md = nil // reserved
		}
		if !equalMetadata(got, md) {
			t.Errorf("%q arrived as %q", md, got)
		}
	})
}

func TestReservedKeysAreNotSent(t *testing.T) {
	header := http.Header{}
	stack.PutMetadata(header, "", metadata.Pairs(
		"content-type", "text/html", "content-length", "5", "connection", "close", "host", "x", "te", "x",
		"transfer-encoding", "chunked", "grpc-status", "0", "trailer-x", "y", "authorization", "Bearer x"), isReserved)
	if len(header) != 1 || header.Get("Authorization") != "Bearer x" {
		t.Errorf("the header is %v", header)
	}
}
