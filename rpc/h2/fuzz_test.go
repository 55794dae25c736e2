package h2

import (
	"bytes"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"wirelab.dev/rpc/batchio"
)

// FuzzFeed feeds a server arbitrary bytes after a valid beginning. The server must not
// panic, must write only whole frames, must not exceed its stream limit, and after an
// error must keep returning it.
func FuzzFeed(f *testing.F) {
	f.Add(append(open(1, http2.FlagHeadersEndStream), frame(http2.FramePing, 0, 0, make([]byte, 8)...)...))
	f.Add(append(open(1, 0), frame(http2.FrameData, http2.FlagDataEndStream|http2.FlagDataPadded, 1, 2, 'h', 'i', 0, 0)...))
	f.Add(append(frame(http2.FrameHeaders, 0, 1, requestBlock()[:5]...), frame(http2.FrameContinuation, http2.FlagHeadersEndHeaders, 1, requestBlock()[5:]...)...))
	f.Add(settingsFrame(http2.SettingHeaderTableSize, 0))
	f.Add(frame(http2.FrameGoAway, 0, 0, make([]byte, 8)...))
	f.Add(append(open(3, 0), frame(http2.FrameWindowUpdate, 0, 3, 0x7f, 0xff, 0xff, 0xff)...))
	f.Fuzz(func(t *testing.T, in []byte) {
		r := newServer(t, testConfig)
		for len(in) > 0 {
			n, err := r.conn.Feed(0, in, 3)
			for _, s := range r.streams {
				r.conn.SendHeaders(s, responseRun, nil)
				r.conn.SendData(s, batchio.Payload{Data: make([]byte, 100)}, false)
			}
			frames(t, r.take())
			if got := r.conn.OpenStreams(); got > testConfig.MaxStreams {
				t.Fatalf("%d streams are open", got)
			}
			if err != nil {
				if r.conn.failConn(http2.ErrCodeInternal, "") != err { //nolint:errorlint // the very same error, not one that wraps it
					t.Fatal("the first failure was forgotten")
				}
				return
			}
			if n == 0 {
				return
			}
			in = in[n:]
		}
	})
}

// FuzzBlock compares the caching decoder with plain HPACK on a series of blocks.
func FuzzBlock(f *testing.F) {
	f.Add([]byte{0x82, 0x86, 0x84}, []byte{0x82, 0x86, 0x84, 0x00, 1, 'a', 1, 'b'})
	f.Add([]byte{0x40, 1, 'a', 1, 'b'}, []byte{0xbe, 0xbe})
	f.Add([]byte{0x3f, 0xe1, 0x1f, 0x82}, []byte{0x20, 0x82})
	// A block that comes again has another meaning after an insertion.
	f.Add([]byte{0x40, 1, 'a', 1, 'b'}, []byte{0x82, 0xbe, 0x04, 2, '/', 'x'})
	f.Add([]byte{0x40, 1, 'a', 1, 'b', 0x40, 1, 'c', 1, 'd'}, []byte{0x04, 2, '/', 'x', 0xbf, 0x10, 1, 'k', 1, 'v'})
	// An insertion behind an integer of six further bytes: 0xbe means another field afterwards.
	f.Add([]byte{0x40, 4, 'u', 's', 'e', 'r', 5, 'a', 'l', 'i', 'c', 'e'},
		[]byte{0xbe, 0x0f, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00, 1, 'x', 0x40, 4, 'u', 's', 'e', 'r', 7, 'm', 'a', 'l', 'l', 'o', 'r', 'y'})
	f.Fuzz(func(t *testing.T, first, second []byte) {
		d := newDecoder(1 << 20)
		var want []hpack.HeaderField
		plain := hpack.NewDecoder(defaultHeaderTable, func(h hpack.HeaderField) { want = append(want, h) })
		for i, block := range [][]byte{first, second, second, first, second} {
			want = want[:0]
			_, plainErr := plain.Write(block)
			if plainErr == nil {
				plainErr = plain.Close()
			}
			got, err := d.decode(block)
			if (err == nil) != (plainErr == nil) {
				t.Fatalf("block %d: %v, plain HPACK %v", i, err, plainErr)
			}
			if err != nil {
				return
			}
			var fields []hpack.HeaderField
			if got.Fixed != nil {
				fields = append(fields, got.Fixed.Fields...)
			}
			fields = append(fields, got.Rest...)
			if len(fields) != len(want) {
				t.Fatalf("block %d: %d fields, want %d", i, len(fields), len(want))
			}
			for j := range fields {
				if fields[j] != want[j] {
					t.Fatalf("block %d field %d: %v, want %v", i, j, fields[j], want[j])
				}
			}
		}
	})
}

// FuzzEncode encodes series of FixedFields, with changes of the table size in between,
// and decodes them with plain HPACK.
func FuzzEncode(f *testing.F) {
	f.Add([]byte{0, 1, 2, 0, 1, 200, 0, 1, 255, 3, 3})
	f.Fuzz(func(t *testing.T, script []byte) {
		runs := make([]*FixedFields, 60)
		for i := range runs {
			path := "/service/" + string(bytes.Repeat([]byte{'a' + byte(i%26)}, 1+i*2))
			runs[i] = &FixedFields{Fields: []hpack.HeaderField{{Name: ":method", Value: "POST"}, {Name: ":path", Value: path}}}
		}
		e := newEncoder()
		var got []hpack.HeaderField
		plain := hpack.NewDecoder(defaultHeaderTable, func(h hpack.HeaderField) { got = append(got, h) })
		for _, op := range script {
			if op >= 200 {
				e.setTableLimit(uint32(op-200) * 70)
				continue
			}
			run := runs[int(op)%len(runs)]
			extra := []hpack.HeaderField{{Name: "grpc-timeout", Value: string(bytes.Repeat([]byte{'1'}, int(op)))}}
			got = got[:0]
			if _, err := plain.Write(e.appendBlock(nil, run, extra)); err != nil {
				t.Fatal(err)
			}
			if err := plain.Close(); err != nil {
				t.Fatal(err)
			}
			if len(got) != 3 || got[1] != run.Fields[1] || got[2] != extra[0] {
				t.Fatalf("%v came back as %v", run.Fields, got)
			}
		}
	})
}
