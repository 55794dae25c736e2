package faststack_test

import (
	"fmt"
	"testing"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/stack/faststack"
	"wirelab.dev/internal/wire/stack/grpcstack"
	"wirelab.dev/internal/wire/stack/stacktest"
)

var fast = faststack.New(grpcstack.Stack)

const greeting = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" // RFC 9113, section 3.4

// frames are wrong on HTTP/2, and followed by nothing.
var frames = map[string][]byte{
	"half a greeting":        []byte(greeting[:18]),
	"a frame of 16 MiB":      []byte(greeting + "\xff\xff\xff\x00\x00\x00\x00\x00\x01"),
	"DATA on no stream":      []byte(greeting + "\x00\x00\x00\x04\x00\x00\x00\x00\x00" + "\x00\x00\x01\x00\x00\x00\x00\x00\x00x"),
	"HEADERS that are noise": []byte(greeting + "\x00\x00\x00\x04\x00\x00\x00\x00\x00" + "\x00\x00\x04\x01\x04\x00\x00\x00\x01\xff\xff\xff\xff"),
}

func TestSuite(t *testing.T) {
	for _, c := range []struct {
		variant   string
		lifecycle conn.Lifecycle
	}{
		{"fastgrpc", conn.Kept},
		{"fastgrpc", conn.Fresh},
		{"fastgrpc:alias=on,codec=vt", conn.Kept},
		{"fastgrpc:tls=on", conn.Kept},
		{"fastgrpc:tls=on,handshakes=2", conn.Fresh},
		{"fastgrpc:tls=on", conn.Resumed},
		{"fastgrpc:ends=client,codec=vt", conn.Kept},
		{"fastgrpc:ends=client,tls=on", conn.Resumed},
		{"fastgrpc:ends=server", conn.Kept},
		{"fastgrpc:ends=server,tls=on", conn.Fresh},
	} {
		t.Run(fmt.Sprintf("%s/%d", c.variant, c.lifecycle), func(t *testing.T) {
			stacktest.Run(t, stacktest.Subject{Idle: idle, Stack: fast, Variant: parse(t, c.variant), Lifecycle: c.lifecycle, Garbage: frames})
		})
	}
}

func TestSecurity(t *testing.T) {
	for _, variant := range []string{"fastgrpc:tls=on", "fastgrpc:tls=on,cert=rsa,group=x25519,handshakes=2", "fastgrpc:ends=client,tls=on", "fastgrpc:ends=server,tls=on"} {
		t.Run(variant, func(t *testing.T) {
			stacktest.RunSecurity(t, stacktest.Subject{Stack: fast, Variant: parse(t, variant)})
		})
	}
}

// idle is the function of goroutines that wait for the next call.
const idle = "wirelab.dev/rpc/call.(*Workers[...]).run"

func TestLeaks(t *testing.T) {
	for _, variant := range []string{"fastgrpc", "fastgrpc:tls=on", "fastgrpc:tls=on,handshakes=2"} {
		t.Run(variant, func(t *testing.T) {
			stacktest.RunLeaks(t, stacktest.Subject{Stack: fast, Variant: parse(t, variant), Idle: idle})
		})
	}
}

func parse(t *testing.T, text string) scenario.Variant {
	t.Helper()
	v, err := scenario.ParseVariant(text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
