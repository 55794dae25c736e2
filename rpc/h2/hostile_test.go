package h2

import (
	"bytes"
	"encoding/binary"
	"errors"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"wirelab.dev/rpc/batchio"
)

// flood is an attack: the frames that are sent first, and those that are repeated.
type flood struct {
	name   string
	before []byte
	repeat func(i int) []byte
	code   http2.ErrCode
}

func settingsFrame(id http2.SettingID, v uint32) []byte {
	p := binary.BigEndian.AppendUint16(nil, uint16(id))
	return frame(http2.FrameSettings, 0, 0, binary.BigEndian.AppendUint32(p, v)...)
}

var floods = []flood{
	{"pings", nil, func(int) []byte { return frame(http2.FramePing, 0, 0, make([]byte, 8)...) }, http2.ErrCodeEnhanceYourCalm},
	{"pongs", nil, func(int) []byte { return frame(http2.FramePing, http2.FlagPingAck, 0, make([]byte, 8)...) }, http2.ErrCodeEnhanceYourCalm},
	{"settings", nil, func(int) []byte { return settingsFrame(http2.SettingInitialWindowSize, 65535) }, http2.ErrCodeEnhanceYourCalm},
	{"settings acks", nil, func(int) []byte { return frame(http2.FrameSettings, http2.FlagSettingsAck, 0) }, http2.ErrCodeEnhanceYourCalm},
	{"empty data", open(1, 0), func(int) []byte { return frame(http2.FrameData, 0, 1) }, http2.ErrCodeEnhanceYourCalm},
	{"padding only", open(1, 0), func(int) []byte { return frame(http2.FrameData, http2.FlagDataPadded, 1, 3, 0, 0, 0) }, http2.ErrCodeEnhanceYourCalm},
	{"priorities", nil, func(int) []byte { return frame(http2.FramePriority, 0, 1, 0, 0, 0, 3, 0) }, http2.ErrCodeEnhanceYourCalm},
	{"unknown frames", nil, func(int) []byte { return frame(0xff, 0, 0, 1, 2, 3) }, http2.ErrCodeEnhanceYourCalm},
	{"window updates", open(1, 0), func(int) []byte { return frame(http2.FrameWindowUpdate, 0, 1, 0, 0, 0, 1) }, http2.ErrCodeEnhanceYourCalm},
	{"rapid reset", nil, func(i int) []byte {
		id := uint32(2*i + 1)
		return append(open(id, http2.FlagHeadersEndStream), frame(http2.FrameRSTStream, 0, id, 0, 0, 0, byte(http2.ErrCodeCancel))...)
	}, http2.ErrCodeNo}, // they cost no more than calls
	{"rapid reset with data", nil, func(i int) []byte {
		id := uint32(2*i + 1)
		in := append(open(id, 0), frame(http2.FrameData, 0, id, 1)...)
		return append(in, frame(http2.FrameRSTStream, 0, id, 0, 0, 0, byte(http2.ErrCodeCancel))...)
	}, http2.ErrCodeNo}, // they cost no more than calls
	{
		"data on closed streams", append(open(1, http2.FlagHeadersEndStream), frame(http2.FrameRSTStream, 0, 1, 0, 0, 0, 8)...),
		func(int) []byte { return frame(http2.FrameData, 0, 1, 1) }, http2.ErrCodeEnhanceYourCalm,
	},
	{
		"empty continuations", frame(http2.FrameHeaders, 0, 1, requestBlock()...),
		func(int) []byte { return frame(http2.FrameContinuation, 0, 1) }, http2.ErrCodeEnhanceYourCalm,
	},
	{
		"long continuations", frame(http2.FrameHeaders, 0, 1, requestBlock()...),
		func(int) []byte { return frame(http2.FrameContinuation, 0, 1, make([]byte, 1<<14)...) }, http2.ErrCodeEnhanceYourCalm,
	},
	{
		"data beyond the window", open(1, 0),
		func(int) []byte { return frame(http2.FrameData, 0, 1, make([]byte, 1<<14)...) }, http2.ErrCodeNo,
	},
	// The next three make the server reset streams whose handlers have begun
	// (CVE-2025-8671).
	{"data behind the end", nil, func(i int) []byte {
		id := uint32(2*i + 1)
		return append(open(id, http2.FlagHeadersEndStream), frame(http2.FrameData, 0, id, 1)...)
	}, http2.ErrCodeEnhanceYourCalm},
	{"headers behind the end", nil, func(i int) []byte {
		id := uint32(2*i + 1)
		return append(open(id, http2.FlagHeadersEndStream), open(id, http2.FlagHeadersEndStream)...)
	}, http2.ErrCodeEnhanceYourCalm},
	{"window updates of nothing", nil, func(i int) []byte {
		id := uint32(2*i + 1)
		return append(open(id, 0), frame(http2.FrameWindowUpdate, 0, id, 0, 0, 0, 0)...)
	}, http2.ErrCodeEnhanceYourCalm},
	{"connection window overflow", nil, func(int) []byte {
		return frame(http2.FrameWindowUpdate, 0, 0, 0x7f, 0xff, 0xff, 0xff)
	}, http2.ErrCodeFlowControl},
	{"stream window overflow", open(1, 0), func(int) []byte {
		return frame(http2.FrameWindowUpdate, 0, 1, 0x7f, 0xff, 0xff, 0xff)
	}, http2.ErrCodeNo},
}

// answered sends a response header on the client's only stream.
var answered = frame(http2.FrameHeaders, http2.FlagHeadersEndHeaders, 1, appendLiteral(nil, responseRun.Fields[0])...)

// clientFloods are a server's attacks on a client whose stream 1 is open.
var clientFloods = []flood{
	{"pings", nil, func(int) []byte { return frame(http2.FramePing, 0, 0, make([]byte, 8)...) }, http2.ErrCodeEnhanceYourCalm},
	{"settings", nil, func(int) []byte { return settingsFrame(http2.SettingInitialWindowSize, 65535) }, http2.ErrCodeEnhanceYourCalm},
	{"settings acks", nil, func(int) []byte { return frame(http2.FrameSettings, http2.FlagSettingsAck, 0) }, http2.ErrCodeEnhanceYourCalm},
	{"GOAWAYs", nil, func(int) []byte { return frame(http2.FrameGoAway, 0, 0, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0) }, http2.ErrCodeEnhanceYourCalm},
	{"pushes", nil, func(int) []byte { return frame(http2.FramePushPromise, http2.FlagHeadersEndHeaders, 1, 0, 0, 0, 2) }, http2.ErrCodeProtocol},
	{"empty data", answered, func(int) []byte { return frame(http2.FrameData, 0, 1) }, http2.ErrCodeEnhanceYourCalm},
	{"window updates", nil, func(int) []byte { return frame(http2.FrameWindowUpdate, 0, 1, 0, 0, 0, 1) }, http2.ErrCodeEnhanceYourCalm},
	{"informational responses", nil, func(int) []byte {
		return frame(http2.FrameHeaders, http2.FlagHeadersEndHeaders, 1, appendLiteral(nil, hpack.HeaderField{Name: ":status", Value: "103"})...)
	}, http2.ErrCodeEnhanceYourCalm},
	{"headers on a closed stream", append(answered, frame(http2.FrameRSTStream, 0, 1, 0, 0, 0, 8)...), func(int) []byte {
		return answered
	}, http2.ErrCodeEnhanceYourCalm},
	{"headers on an idle stream", nil, func(int) []byte {
		return frame(http2.FrameHeaders, http2.FlagHeadersEndHeaders, 3, answered[FrameHeaderLen:]...)
	}, http2.ErrCodeProtocol},
	{"empty continuations", frame(http2.FrameHeaders, 0, 1), func(int) []byte { return frame(http2.FrameContinuation, 0, 1) }, http2.ErrCodeEnhanceYourCalm},
	{"connection window overflow", nil, func(int) []byte {
		return frame(http2.FrameWindowUpdate, 0, 0, 0x7f, 0xff, 0xff, 0xff)
	}, http2.ErrCodeFlowControl},
	{"data before headers", nil, func(int) []byte { return frame(http2.FrameData, 0, 1, 1) }, http2.ErrCodeNo},
	{"data beyond the window", answered, func(int) []byte {
		return frame(http2.FrameData, 0, 1, make([]byte, 1<<14)...)
	}, http2.ErrCodeNo},
	{"trailers without an end", answered, func(int) []byte { return answered }, http2.ErrCodeNo},
}

// newClient returns a client whose stream 1 is open.
func newClient(t *testing.T) *recorder {
	cfg := testConfig
	cfg.Client = true
	r := newRecorder(cfg)
	if _, err := r.conn.Feed(0, AppendFrameHeader(nil, FrameHeader{Type: http2.FrameSettings}), 10); err != nil {
		t.Fatal(err)
	}
	s := new(Stream)
	r.conn.Open(s)
	r.conn.SendHeaders(s, requestRun, nil)
	r.take()
	return r
}

// TestFloods sends each flood without reading answers, and so fast that time earns no
// credit. The connection must end with the right code and must not have grown.
func TestFloods(t *testing.T) {
	t.Run("server", func(t *testing.T) {
		checkFloods(t, floods, func() *recorder { return newServer(t, testConfig) })
	})
	t.Run("client", func(t *testing.T) {
		checkFloods(t, clientFloods, func() *recorder { return newClient(t) })
	})
}

func checkFloods(t *testing.T, floods []flood, begin func() *recorder) {
	for _, f := range floods {
		t.Run(f.name, func(t *testing.T) {
			r := begin()
			r.hold = true
			if _, err := r.conn.Feed(0, f.before, 10); err != nil {
				t.Fatal(err)
			}
			var memory runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&memory)
			before := memory.HeapAlloc
			err := f.run(r)
			runtime.GC()
			runtime.ReadMemStats(&memory)
			if grown := int64(memory.HeapAlloc) - int64(before); grown > 4<<20 {
				t.Errorf("the heap grew by %d bytes", grown)
			}
			if n := r.conn.UnreleasedStreams(); n > 2*testConfig.MaxStreams {
				t.Errorf("%d streams are held", n)
			}
			var fault *ConnError
			switch {
			case f.code == http2.ErrCodeNo:
				if err != nil {
					t.Errorf("the connection ended with %v", err)
				}
			case !errors.As(err, &fault) || fault.Code != f.code:
				t.Errorf("the connection ended with %v, want %s", err, f.code)
			}
			runtime.KeepAlive(r)
		})
	}
}

func (f flood) run(r *recorder) error {
	const frames = 100_000
	for i := range frames {
		if _, err := r.conn.Feed(0, f.repeat(i), 10); err != nil {
			return err
		}
		if f.code == http2.ErrCodeNo && r.ends[1] > 0 {
			return nil // the stream has been reset, as it should
		}
		for _, s := range r.streams {
			if !s.Open() {
				r.conn.Release(s) // its handler gives up at once
			}
		}
		r.streams = slices.DeleteFunc(r.streams, func(s *Stream) bool { return !s.Open() })
	}
	return nil
}

// TestWorkEarnsCredit checks that a peer may ping and update windows as long as it is
// served.
func TestWorkEarnsCredit(t *testing.T) {
	r := newServer(t, testConfig)
	for i := range 50_000 {
		id := uint32(2*i + 1)
		in := open(id, http2.FlagHeadersEndStream)
		in = append(in, frame(http2.FramePing, 0, 0, make([]byte, 8)...)...)
		in = append(in, frame(http2.FrameWindowUpdate, 0, 0, 0, 0, 0, 1)...)
		if _, err := r.conn.Feed(0, in, 10); err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
		s := r.streams[len(r.streams)-1]
		r.conn.SendHeaders(s, responseRun, nil)
		r.conn.SendData(s, batchio.Payload{Data: []byte{1}}, false)
		r.conn.SendTrailers(s, trailerRun, nil)
		r.conn.Release(s)
		r.streams = r.streams[:0]
		r.take()
	}
	if n := r.conn.UnreleasedStreams(); n != 0 {
		t.Errorf("%d slots are still held", n)
	}
}

// TestDataAfterResponseIsAllowed checks that a client may send short messages until it
// learns that the server has responded.
func TestDataAfterResponseIsAllowed(t *testing.T) {
	r := newServer(t, testConfig)
	if _, err := r.conn.Feed(0, open(1, 0), 1); err != nil {
		t.Fatal(err)
	}
	r.conn.SendTrailers(r.streams[0], trailerRun, nil)
	r.conn.Release(r.streams[0])
	for i := range 50_000 {
		if _, err := r.conn.Feed(0, frame(http2.FrameData, 0, 1, 1), 1); err != nil {
			t.Fatalf("frame %d: %v", i, err)
		}
		r.take()
	}
}

// TestTimeEarnsCredit checks that a peer may ping at a moderate rate without limit.
func TestTimeEarnsCredit(t *testing.T) {
	r := newServer(t, testConfig)
	for i := range 50_000 {
		if _, err := r.conn.Feed(time.Duration(i)*time.Millisecond, frame(http2.FramePing, 0, 0, make([]byte, 8)...), 1); err != nil {
			t.Fatal(err)
		}
		r.take()
	}
}

// TestHeaderBomb sends a block that refers many times to one long field.
func TestHeaderBomb(t *testing.T) {
	r := newServer(t, testConfig)
	var packed bytes.Buffer
	enc := hpack.NewEncoder(&packed)
	for _, f := range requestRun.Fields {
		_ = enc.WriteField(f)
	}
	bomb := hpack.HeaderField{Name: "x", Value: string(make([]byte, 0)) + string(bytes.Repeat([]byte{'a'}, 3500))}
	for range 1000 {
		_ = enc.WriteField(bomb)
	}
	in := frame(http2.FrameHeaders, http2.FlagHeadersEndHeaders|http2.FlagHeadersEndStream, 1, packed.Bytes()...)
	if _, err := r.conn.Feed(0, in, 1); err != nil {
		t.Fatal(err)
	}
	if !r.conn.dec.block.TooLarge || len(r.conn.dec.block.Rest) > 10 {
		t.Errorf("the block was delivered with %d fields", len(r.conn.dec.block.Rest))
	}
	// The dynamic table is still correct: the next request decodes.
	packed.Reset()
	for _, f := range requestRun.Fields {
		_ = enc.WriteField(f)
	}
	in = frame(http2.FrameHeaders, http2.FlagHeadersEndHeaders|http2.FlagHeadersEndStream, 3, packed.Bytes()...)
	if _, err := r.conn.Feed(0, in, 1); err != nil {
		t.Fatal(err)
	}
	if got := r.events[len(r.events)-1]; got != "headers 3 4 fields end=true" {
		t.Errorf("after the bomb: %s", got)
	}
}

// TestManySettings checks that one frame with many settings that change every window
// costs as much credit as many frames, so that a kilobyte cannot keep a core busy.
func TestManySettings(t *testing.T) {
	r := newServer(t, testConfig)
	var many []byte
	for i := range 2000 {
		many = binary.BigEndian.AppendUint16(many, uint16(http2.SettingInitialWindowSize))
		many = binary.BigEndian.AppendUint32(many, uint32(i))
	}
	taken := 0
	var err error
	for err == nil && taken < 100 {
		_, err = r.conn.Feed(0, frame(http2.FrameSettings, 0, 0, many...), 1)
		taken++
	}
	var fault *ConnError
	if !errors.As(err, &fault) || fault.Code != http2.ErrCodeEnhanceYourCalm || taken > 10 {
		t.Errorf("%d frames of 2000 settings were taken, and then: %v", taken, err)
	}
}

// TestCachedBlocksAreBounded checks that the decoder's cache stays small, whatever
// blocks a peer sends.
func TestCachedBlocksAreBounded(t *testing.T) {
	cfg := testConfig
	cfg.MaxHeaderList, cfg.MaxFrameSize = 64<<10, 128<<10
	d := newDecoder(uint32(cfg.MaxHeaderList))
	for i := range 1000 {
		block := bytes.Repeat([]byte{0x84}, 1500) // ":path /", over and over
		block[i] = 0x85
		if _, err := d.decode(block); err != nil {
			t.Fatal(err)
		}
	}
	fields := 0
	for _, set := range d.sets {
		fields += len(set.Fields)
	}
	if fields > 20_000 {
		t.Errorf("%d fields are remembered in %d sets", fields, len(d.sets))
	}
}

// TestUnreadOutput checks that, for a peer that reads nothing, the output holds at most
// OutputLimit and one payload, and the streams queue the rest.
func TestUnreadOutput(t *testing.T) {
	r := newServer(t, testConfig)
	in := frame(http2.FrameWindowUpdate, 0, 0, 0x7f, 0, 0, 0)
	in = append(in, settingsFrame(http2.SettingInitialWindowSize, maxWindow)...)
	in = append(in, open(1, http2.FlagHeadersEndStream)...)
	if _, err := r.conn.Feed(0, in, 10); err != nil {
		t.Fatal(err)
	}
	s := r.streams[0]
	r.conn.SendHeaders(s, responseRun, nil)
	for range 100 {
		r.conn.SendData(s, batchio.Payload{Data: make([]byte, 10_000)}, false)
	}
	if n := r.conn.Pending(); n > testConfig.OutputLimit+20_000 {
		t.Errorf("%d bytes wait in the output", n)
	}
	if !s.Queued() {
		t.Error("nothing is held back")
	}
	for total := 0; s.Queued(); {
		n := len(r.take())
		if total += n; n == 0 {
			t.Fatalf("stuck after %d bytes", total)
		}
	}
}
