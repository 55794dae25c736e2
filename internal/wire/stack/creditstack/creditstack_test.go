package creditstack_test

import (
	"fmt"
	"testing"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/stack/creditstack"
	"wirelab.dev/internal/wire/stack/stacktest"
)

// hello is a client's first frame: version 1, windows of 1 MiB.
const hello = "\x00\x00\x0d\x00\x00\x00\x00\x00" + "CRPC\x01" + "\x01\x80\x80\x40" + "\x02\x80\x80\x40"

// frames are wrong, and followed by nothing.
var frames = map[string][]byte{
	"half a greeting":             []byte(hello[:12]),
	"another protocol":            []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
	"a version of the future":     []byte("\x00\x00\x05\x00\x00\x00\x00\x00CRPC\x09"),
	"a frame of 16 MiB":           []byte(hello + "\xff\xff\xff\x03\x00\x00\x00\x01"),
	"a message on no stream":      []byte(hello + "\x00\x00\x01\x23\x00\x00\x00\x01x"),
	"a request without a method":  []byte(hello + "\x00\x00\x03\x22\x00\x00\x00\x01\x00\x00\x00"),
	"a request that is cut short": []byte(hello + "\x00\x00\x04\x01\x00\x00\x00\x00/s/m" + "\x00\x00\x03\x22\x00\x00\x00\x01\x00\x00\xff"),
}

func TestSuite(t *testing.T) {
	for _, c := range []struct {
		variant   string
		lifecycle conn.Lifecycle
	}{
		{"creditrpc", conn.Kept},
		{"creditrpc", conn.Fresh},
		{"creditrpc:calls=2,window=1", conn.Kept},
		{"creditrpc:alias=on,spin=50us", conn.Kept},
		{"creditrpc:tls=on,spin=50us", conn.Kept},
		{"creditrpc:tls=on,handshakes=2", conn.Fresh},
		{"creditrpc:tls=on", conn.Resumed},
	} {
		t.Run(fmt.Sprintf("%s/%d", c.variant, c.lifecycle), func(t *testing.T) {
			stacktest.Run(t, stacktest.Subject{Idle: idle, Stack: creditstack.Stack, Variant: parse(t, c.variant), Lifecycle: c.lifecycle, Garbage: frames})
		})
	}
}

func TestSecurity(t *testing.T) {
	for _, variant := range []string{"creditrpc:tls=on", "creditrpc:tls=on,cert=rsa,group=x25519,handshakes=2"} {
		t.Run(variant, func(t *testing.T) {
			stacktest.RunSecurity(t, stacktest.Subject{Stack: creditstack.Stack, Variant: parse(t, variant)})
		})
	}
}

// idle is the function of goroutines that wait for the next call.
const idle = "wirelab.dev/rpc/call.(*Workers[...]).run"

func TestLeaks(t *testing.T) {
	for _, variant := range []string{"creditrpc", "creditrpc:tls=on"} {
		t.Run(variant, func(t *testing.T) {
			stacktest.RunLeaks(t, stacktest.Subject{Stack: creditstack.Stack, Variant: parse(t, variant), Idle: idle})
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
