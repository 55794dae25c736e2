package message

import (
	"math"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// TestLongestMessage checks the longest message that a prefix can tell.
func TestLongestMessage(t *testing.T) {
	for _, c := range []struct {
		size, limit int64
		ok          bool
	}{
		{math.MaxUint32, math.MaxInt64, true},
		{math.MaxUint32 + 1, math.MaxInt64, false},
		{math.MaxUint32, math.MaxUint32 - 1, false},
		{0, 0, true},
		{1, 0, false},
		{0, -1, false},
	} {
		if c.size > math.MaxInt || c.limit > math.MaxInt {
			continue // a 32-bit system has no such message
		}
		err := checkSendSize(int(c.size), int(c.limit))
		if (err == nil) != c.ok || err != nil && status.Code(err) != codes.ResourceExhausted {
			t.Errorf("%d bytes with a limit of %d: %v", c.size, c.limit, err)
		}
	}
}

// TestNilIsEmpty checks that nil is an empty message, with every codec, as for grpc-go.
func TestNilIsEmpty(t *testing.T) {
	for _, c := range []Codec{ProtoCodec{}, CodecV2{}, CodecV1{}} {
		b, err := Encode(c, nil, nil, 0)
		if err != nil || string(b.Data) != "\x00\x00\x00\x00\x00" {
			t.Fatalf("%T: %v, %v", c, b, err)
		}
		b.Release()
	}
}
