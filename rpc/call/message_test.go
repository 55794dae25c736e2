package rpccall

import (
	"bytes"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// TestMarshal checks that a message follows its prefix, and that a value which is no message
// is refused.
func TestMarshal(t *testing.T) {
	in := wrapperspb.Bytes(bytes.Repeat([]byte{7}, 5000))
	for _, prefix := range []int{0, 4, 9} {
		b, err := Marshal(in, MarshalOptions{Prefix: prefix})
		if err != nil {
			t.Fatal(err)
		}
		out := new(wrapperspb.BytesValue)
		if err := proto.Unmarshal(b.Data[prefix:], out); err != nil || !proto.Equal(in, out) {
			t.Errorf("with a prefix of %d bytes another message came back (%v)", prefix, err)
		}
		b.Release()
	}
	if _, err := Marshal("text", MarshalOptions{}); err == nil {
		t.Error("a string was taken for a message")
	}
}

// short has vtprotobuf's methods, and writes less than it says.
type short struct{ *wrapperspb.BytesValue }

func (short) SizeVT() int { return 10 }

func (short) MarshalToSizedBufferVT([]byte) (int, error) { return 9, nil }

// TestShortMessage checks that a message that writes less than its size is refused: the
// rest of the buffer would hold what other calls left there.
func TestShortMessage(t *testing.T) {
	v := short{wrapperspb.Bytes([]byte("content"))}
	if _, err := Marshal(v, MarshalOptions{VT: true}); err == nil {
		t.Error("9 bytes of 10 were taken")
	}
	if b, err := Marshal(v, MarshalOptions{}); err != nil {
		t.Errorf("without vtprotobuf's methods: %v", err)
	} else {
		b.Release()
	}
}
