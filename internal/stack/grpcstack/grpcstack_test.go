package grpcstack

import (
	"testing"

	"wirelab.dev/internal/scenario"
	"wirelab.dev/internal/stack/stacktest"
)

// frames are wrong on HTTP/2: each follows the greeting that a server expects.
var frames = map[string][]byte{
	"half a greeting":        []byte("PRI * HTTP/2.0\r\n\r\nSM"),
	"a frame of 16 MiB":      []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\x00\x00\x00\x00\x00\x01"),
	"half a SETTINGS frame":  []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x03"),
	"DATA on no stream":      []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00x"),
	"HEADERS that are noise": []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x04\x01\x04\x00\x00\x00\x01\xff\xff\xff\xff"),
}

func TestSuite(t *testing.T) {
	stacktest.Run(t, stacktest.Subject{
		Stack:   Stack{},
		Variant: scenario.Variant{Stack: "grpc"},
		Garbage: frames,
	})
}
