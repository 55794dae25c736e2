package message

import (
	"bytes"
	"encoding/binary"
	"testing"

	"wirelab.dev/rpc/batchio"
	"wirelab.dev/rpc/call/wire"
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
				var m Message
				var done bool
				if m, data, done, gotErr = a.nextMessage(data, chunk); done {
					got = append(got, bytes.Clone(m.Data))
					m.Release()
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
	for len(stream) >= wire.PrefixLen {
		n := int64(binary.BigEndian.Uint32(stream[1:]))
		if stream[0] > 1 || n > int64(limit) {
			return messages, true
		}
		if int64(len(stream)) < wire.PrefixLen+n {
			return messages, false
		}
		messages = append(messages, stream[wire.PrefixLen:wire.PrefixLen+n])
		stream = stream[wire.PrefixLen+n:]
	}
	return messages, false
}
