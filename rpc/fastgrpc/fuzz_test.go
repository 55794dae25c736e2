package fastgrpc

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"wirelab.dev/rpc/batchio"
)

// FuzzAssembler splits a stream of messages at arbitrary places and expects the messages.
func FuzzAssembler(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 2, 'h', 'i', 1, 0, 0, 0, 0}, uint16(1))
	f.Add(append([]byte{0, 0, 0, 16, 0}, make([]byte, 5000)...), uint16(3000))
	f.Fuzz(func(t *testing.T, stream []byte, piece uint16) {
		const limit = 1 << 16
		want, wantErr := split(stream, limit)
		chunk := batchio.NewExactBuffer(len(stream))
		stream = chunk.Data[:copy(chunk.Data, stream)]
		a := assembler{limit: limit}
		var got [][]byte
		var gotErr error
		for at := 0; at < len(stream) && gotErr == nil; {
			end := min(len(stream), at+1+int(piece))
			for data := stream[at:end]; len(data) > 0 && gotErr == nil; {
				var m message
				var done bool
				if m, data, done, gotErr = a.next(data, chunk); done {
					got = append(got, bytes.Clone(m.data))
					m.release()
				}
			}
			at = end
		}
		if (gotErr != nil) != wantErr {
			t.Fatalf("error %v, want one: %v", gotErr, wantErr)
		}
		if len(got) != len(want) {
			t.Fatalf("%d messages, want %d", len(got), len(want))
		}
		for i := range got {
			if !bytes.Equal(got[i], want[i]) {
				t.Fatalf("message %d differs", i)
			}
		}
		a.drop()
		if chunk.IsShared() {
			t.Fatal("the chunk is still in use")
		}
	})
}

// split is a simple reference implementation of the assembler.
func split(stream []byte, limit int) (messages [][]byte, bad bool) {
	for len(stream) >= prefixLen {
		n := int64(binary.BigEndian.Uint32(stream[1:]))
		if stream[0] > 1 || n > int64(limit) {
			return messages, true
		}
		if int64(len(stream)) < prefixLen+n {
			return messages, false
		}
		messages = append(messages, stream[prefixLen:prefixLen+n])
		stream = stream[prefixLen+n:]
	}
	return messages, false
}

// FuzzTimeout checks that a decoded timeout is at least the encoded one and little
// longer.
func FuzzTimeout(f *testing.F) {
	f.Add(int64(1), "1S")
	f.Add(int64(99_999_999), "99999999H")
	f.Add(int64(1<<62), "0n")
	f.Fuzz(func(t *testing.T, n int64, text string) {
		d := time.Duration(n)
		got, err := decodeTimeout(encodeTimeout(d))
		if err != nil {
			t.Fatal(err)
		}
		if got < d || d > 0 && got > d+d/100_000+1 {
			t.Fatalf("%v came back as %v", d, got)
		}
		if d, err := decodeTimeout(text); err == nil && d < 0 {
			t.Fatalf("%q is %v", text, d)
		}
	})
}

// FuzzStatusMessage checks that valid UTF-8 survives encoding and decoding.
func FuzzStatusMessage(f *testing.F) {
	f.Add("plain")
	f.Add("100% ☺\n")
	f.Fuzz(func(t *testing.T, text string) {
		_ = decodeStatusMessage(text)
		encoded := encodeStatusMessage(text)
		for i := range len(encoded) {
			if encoded[i] < ' ' || encoded[i] > '~' {
				t.Fatalf("%q is not printable", encoded)
			}
		}
		if got := decodeStatusMessage(encoded); utf8.ValidString(text) && got != text {
			t.Fatalf("%q came back as %q", text, got)
		}
		st := status.New(codes.Internal, text)
		fields := statusFields(st)
		if len(fields) > 0 && fields[0].Value != "13" {
			t.Fatalf("fields are %v", fields)
		}
	})
}
