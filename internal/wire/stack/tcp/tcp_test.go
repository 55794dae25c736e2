package tcp

import (
	"encoding/binary"
	"fmt"
	"testing"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/stack/stacktest"
)

func TestSuite(t *testing.T) {
	plain := plainLack("the plain framing has no room for it")
	for _, c := range []struct {
		variant   string
		lifecycle conn.Lifecycle
		lacks     map[stacktest.Ability]string
	}{
		{"tcp", conn.Kept, nil},
		{"tcp:buffers=pooled", conn.Kept, nil},
		{"tcp:buffers=pooled-server,gate=64", conn.Kept, nil},
		{"tcp:framing=calls", conn.Kept, nil},
		{"tcp:buffers=pooled,framing=calls", conn.Kept, nil},
		{"tcp:framing=plain", conn.Kept, plain},
		{"tcp:buffers=pooled,framing=plain", conn.Kept, plain},
		{"tcp", conn.Fresh, nil},
		{"tcp:tls=on", conn.Kept, nil},
		{"tcp:tls=on,handshakes=2", conn.Fresh, nil},
		{"tcp:tls=on,buffers=pooled", conn.Resumed, nil},
	} {
		t.Run(fmt.Sprintf("%s/%d", c.variant, c.lifecycle), func(t *testing.T) {
			stacktest.Run(t, stacktest.Subject{
				Stack: Stack{}, Variant: parse(t, c.variant), Lifecycle: c.lifecycle, Lacks: c.lacks, Garbage: garbage(),
			})
		})
	}
}

func TestSecurity(t *testing.T) {
	for _, variant := range []string{"tcp:tls=on", "tcp:tls=on,framing=calls", "tcp:tls=on,cert=rsa,group=x25519,handshakes=2,framing=plain"} {
		t.Run(variant, func(t *testing.T) {
			stacktest.RunSecurity(t, stacktest.Subject{Stack: Stack{}, Variant: parse(t, variant)})
		})
	}
}

func TestLeaks(t *testing.T) {
	for _, variant := range []string{"tcp", "tcp:tls=on", "tcp:tls=on,handshakes=2"} {
		t.Run(variant, func(t *testing.T) {
			stacktest.RunLeaks(t, stacktest.Subject{Stack: Stack{}, Variant: parse(t, variant)})
		})
	}
}

func plainLack(reason string) map[stacktest.Ability]string {
	return map[stacktest.Ability]string{
		stacktest.RequestMetadata: reason, stacktest.ResponseMetadata: reason,
		stacktest.Deadlines: reason, stacktest.Cancellation: reason,
		stacktest.OperationNames: reason,
	}
}

func parse(t testing.TB, text string) scenario.Variant {
	t.Helper()
	v, err := scenario.ParseVariant(text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// garbage holds byte sequences that are invalid on this wire.
func garbage() map[string][]byte {
	begin, err := appendCall(nil, callHead{method: "/wirelab.stacktest.v1.TestService/Bidi"})
	if err != nil {
		panic(err)
	}
	frame := func(b []byte, kind byte, length uint32, body string) []byte {
		return append(binary.BigEndian.AppendUint32(append(b[:len(b):len(b)], kind), length), body...)
	}
	return map[string][]byte{
		"half a plain length":          {0, 0},
		"half a plain message":         {0, 0, 0, 100, 1, 2, 3},
		"a plain message too long":     binary.BigEndian.AppendUint32(nil, stack.MaxMessageBytes+1),
		"a plain message that is none": {0, 0, 0, 3, 0xff, 0xff, 0xff},
		"a preamble alone":             []byte("WLB1"),
		"half a head":                  begin[:len(begin)-3],
		"a head too long":              frame([]byte("WLB1"), kindHead, maxHeadBytes+1, ""),
		"a head that is none":          frame([]byte("WLB1"), kindHead, 3, "abc"),
		"a message before the head":    frame([]byte("WLB1"), kindMessage, 0, ""),
		"two heads":                    append(begin[:len(begin):len(begin)], begin[lengthBytes:]...),
		"half a message":               frame(begin, kindMessage, 1000, "part"),
		"a message too long":           frame(begin, kindMessage, stack.MaxMessageBytes+1, "part"),
		"an unknown frame":             frame(begin, 'X', 0, ""),
		"an end with a body":           frame(begin, kindEnd, 1, "x"),
	}
}
