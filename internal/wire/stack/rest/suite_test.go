package rest

import (
	"testing"

	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/stack/stacktest"
)

var _ = stacktest.Skips{{Stack: "rest", Suite: "RunSecurity", Reason: "it is the published studies' cleartext; h1 is the same over TLS"}}

func TestSuite(t *testing.T) {
	for _, c := range []struct {
		variant   string
		lifecycle conn.Lifecycle
	}{
		{"rest", conn.Kept},
		{"rest", conn.Fresh},
		{"h1", conn.Kept},
		{"h1:codec=json", conn.Kept},
		{"h1:tls=on", conn.Kept},
		{"h1:tls=on,handshakes=2", conn.Fresh},
		{"h1:tls=on", conn.Resumed},
		{"h2", conn.Kept},
		{"h2", conn.Fresh},
		{"h2:tls=on", conn.Kept},
		{"h2:tls=on,handshakes=2", conn.Fresh},
		{"h2:tls=on", conn.Resumed},
		{"h3", conn.Kept},
		{"h3", conn.Fresh},
		{"h3:handshakes=2", conn.Resumed},
		{"h3", conn.Early},
	} {
		t.Run(c.variant+"/"+lifecycles[c.lifecycle], func(t *testing.T) {
			s, v := variantOf(t, c.variant)
			stacktest.Run(t, stacktest.Subject{
				Stack:     s,
				Variant:   v,
				Lifecycle: c.lifecycle,
				Datagrams: s == H3,
				Lacks: map[stacktest.Ability]string{
					stacktest.ServiceNames: "the path is the operation alone, as curl users type it",
				},
				Garbage: garbage(s),
			})
		})
	}
}

func TestSecurity(t *testing.T) {
	for _, variant := range []string{"h1:tls=on", "h1:tls=on,handshakes=2", "h2:tls=on", "h2:tls=on,handshakes=2", "h3", "h3:handshakes=2"} {
		t.Run(variant, func(t *testing.T) {
			s, v := variantOf(t, variant)
			stacktest.RunSecurity(t, stacktest.Subject{Stack: s, Variant: v, Datagrams: s == H3})
		})
	}
}

func TestNothingLeaks(t *testing.T) {
	for _, variant := range []string{"rest", "h1:tls=on", "h2", "h2:tls=on", "h3", "h3:handshakes=2"} {
		t.Run(variant, func(t *testing.T) {
			s, v := variantOf(t, variant)
			stacktest.RunLeaks(t, stacktest.Subject{Stack: s, Variant: v, Datagrams: s == H3})
		})
	}
}

var lifecycles = map[conn.Lifecycle]string{conn.Kept: "kept", conn.Fresh: "fresh", conn.Resumed: "resumed", conn.Early: "early"}

// garbage holds bytes that look right at first.
func garbage(s Stack) map[string][]byte {
	switch s {
	case H3:
		return nil // its first byte would have to be encrypted
	case H2:
		const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
		const settings = "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
		return map[string][]byte{
			"half a preface":         []byte(preface[:10]),
			"a preface and ones":     append([]byte(preface), 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff),
			"half a frame":           []byte(preface + settings + "\x00\x00\x10\x01\x05"),
			"data without a stream":  []byte(preface + settings + "\x00\x00\x01\x00\x00\x00\x00\x00\x01x"),
			"headers that are none":  []byte(preface + settings + "\x00\x00\x04\x01\x05\x00\x00\x00\x01\xff\xff\xff\xff"),
			"settings of odd length": []byte(preface + "\x00\x00\x05\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"),
		}
	default:
		return map[string][]byte{
			"half a request line":        []byte("POST /un"),
			"half a header":              []byte("POST /unary HTTP/1.1\r\nHost: wirelab.test\r\nContent-Ty"),
			"half a body":                []byte("POST /unary HTTP/1.1\r\nHost: wirelab.test\r\nContent-Type: application/x-protobuf\r\nContent-Length: 100\r\n\r\nshort"),
			"an impossible length":       []byte("POST /unary HTTP/1.1\r\nHost: wirelab.test\r\nContent-Type: application/x-protobuf\r\nContent-Length: 99999999999999999999\r\n\r\n"),
			"an oversize length":         []byte("POST /unary HTTP/1.1\r\nHost: wirelab.test\r\nContent-Type: application/x-protobuf\r\nContent-Length: 9999999999\r\n\r\n"),
			"a broken chunk":             []byte("POST /unary HTTP/1.1\r\nHost: wirelab.test\r\nContent-Type: application/x-protobuf\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"),
			"an oversize frame":          []byte("POST /client-stream HTTP/1.1\r\nHost: wirelab.test\r\nContent-Type: application/x-protobuf-stream\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n\xff\xff\xff\xff\r\n0\r\n\r\n"),
			"half a frame":               []byte("POST /client-stream HTTP/1.1\r\nHost: wirelab.test\r\nContent-Type: application/x-protobuf-stream\r\nTransfer-Encoding: chunked\r\n\r\n6\r\n\x00\x00\x01\x00ab\r\n0\r\n\r\n"),
			"a header without an end":    append([]byte("POST /unary HTTP/1.1\r\nX: "), make([]byte, 1<<17)...),
			"a body that is no protobuf": []byte("POST /unary HTTP/1.1\r\nHost: wirelab.test\r\nContent-Type: application/x-protobuf\r\nContent-Length: 3\r\n\r\n\xff\xff\xff"),
		}
	}
}
