package rest

import (
	"testing"

	"wirelab.dev/internal/scenario"
	"wirelab.dev/internal/stack/stacktest"
)

func TestSuite(t *testing.T) {
	stacktest.Run(t, stacktest.Subject{
		Stack:   Stack{},
		Variant: scenario.Variant{Stack: "rest"},
		Lacks: map[stacktest.Ability]string{
			stacktest.ServiceNames: "the path is the operation alone, as curl users type it",
		},
		Garbage: map[string][]byte{
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
		},
	})
}
