package wire

import (
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// FuzzTimeout checks that a decoded timeout is at least the encoded one and little
// longer.
func FuzzTimeout(f *testing.F) {
	f.Add(int64(1), "1S")
	f.Add(int64(99_999_999), "99999999H")
	f.Add(int64(1<<62), "0n")
	f.Fuzz(func(t *testing.T, n int64, text string) {
		d := time.Duration(n)
		got, err := DecodeTimeout(EncodeTimeout(d))
		if err != nil {
			t.Fatal(err)
		}
		if got < d || d > 0 && got > d+d/100_000+1 {
			t.Fatalf("%v came back as %v", d, got)
		}
		if d, err := DecodeTimeout(text); err == nil && d < 0 {
			t.Fatalf("%q is %v", text, d)
		}
	})
}

// FuzzStatusMessage checks that valid UTF-8 survives encoding and decoding.
func FuzzStatusMessage(f *testing.F) {
	f.Add("plain")
	f.Add("100% ☺\n")
	f.Fuzz(func(t *testing.T, text string) {
		_ = DecodeStatusMessage(text)
		encoded := EncodeStatusMessage(text)
		for i := range len(encoded) {
			if encoded[i] < ' ' || encoded[i] > '~' {
				t.Fatalf("%q is not printable", encoded)
			}
		}
		if got := DecodeStatusMessage(encoded); utf8.ValidString(text) && got != text {
			t.Fatalf("%q came back as %q", text, got)
		}
		st := status.New(codes.Internal, text)
		fields := StatusFields(st)
		if len(fields) > 0 && fields[0].Value != "13" {
			t.Fatalf("fields are %v", fields)
		}
	})
}

func TestTimeouts(t *testing.T) {
	const longest = time.Duration(math.MaxInt64)
	for d, want := range map[time.Duration]string{longest: "2562048H", longest - 1: "2562048H", -1: "0n", 1: "1n", 99999999: "99999999n", 100000001: "100001u"} {
		if got := EncodeTimeout(d); got != want {
			t.Errorf("a timeout of %v is sent as %s, want %s", d, got, want)
		}
	}
	for text, want := range map[string]time.Duration{
		"0n": 0, "250m": 250 * time.Millisecond, "3S": 3 * time.Second, "2M": 2 * time.Minute, "1H": time.Hour, "7u": 7000, "00000001S": time.Second,
		"99999999H": longest,
	} {
		if got, err := DecodeTimeout(text); err != nil || got != want {
			t.Errorf("%q is %v, %v; want %v", text, got, err, want)
		}
	}
	for _, bad := range []string{"", "S", "5", "5s", "-5S", "+5S", " 5S", "5.5S", "123456789S", "5SS"} {
		if got, err := DecodeTimeout(bad); err == nil {
			t.Errorf("%q was read as %v", bad, got)
		}
	}
}

// TestJoinedBinaryValues counts what commas make an end allocate.
func TestJoinedBinaryValues(t *testing.T) {
	some := hpack.HeaderField{Name: "x-bin", Value: strings.Repeat("AAAA,", maxBinaryValues-1) + "AAAA"}
	md := metadata.MD{}
	if err := AddField(md, some); err != nil || len(md["x-bin"]) != maxBinaryValues {
		t.Errorf("%d values: %d came, %v", maxBinaryValues, len(md["x-bin"]), err)
	}
	many := hpack.HeaderField{Name: "x-bin", Value: strings.Repeat(",", 1<<20)}
	if n := testing.AllocsPerRun(10, func() {
		if AddField(md, many) == nil {
			t.Error("a million values were taken")
		}
	}); n > 20 {
		t.Errorf("%v allocations for a field that is refused", n)
	}
}

// TestContentLengthIsNoMetadata checks that metadata which a program forwards has no key that it
// could not send.
func TestContentLengthIsNoMetadata(t *testing.T) {
	md := metadata.MD{}
	for _, f := range []hpack.HeaderField{{Name: "content-length", Value: "3"}, {Name: "kept", Value: "x"}} {
		if err := AddField(md, f); err != nil {
			t.Error(err)
		}
	}
	if err := CheckMetadata(md); err != nil || len(md) != 1 {
		t.Errorf("the metadata is %v, want only the key kept: %v", md, err)
	}
}
