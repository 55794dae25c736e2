package h2

import (
	"bytes"
	"encoding/binary"
	"errors"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/net/http2/hpack"
)

// flood is an attack: the frames that are sent first, and those that are repeated.
type flood struct {
	name   string
	before []byte
	repeat func(i int) []byte
	code   ErrCode
}

func settingsFrame(id SettingID, v uint32) []byte {
	p := binary.BigEndian.AppendUint16(nil, uint16(id))
	return frame(FrameSettings, 0, 0, binary.BigEndian.AppendUint32(p, v)...)
}

var floods = []flood{
	{"pings", nil, func(int) []byte { return frame(FramePing, 0, 0, make([]byte, 8)...) }, CodeEnhanceYourCalm},
	{"pongs", nil, func(int) []byte { return frame(FramePing, FlagAck, 0, make([]byte, 8)...) }, CodeEnhanceYourCalm},
	{"settings", nil, func(int) []byte { return settingsFrame(SettingInitialWindowSize, 65535) }, CodeEnhanceYourCalm},
	{"settings acks", nil, func(int) []byte { return frame(FrameSettings, FlagAck, 0) }, CodeEnhanceYourCalm},
	{"empty data", open(1, 0), func(int) []byte { return frame(FrameData, 0, 1) }, CodeEnhanceYourCalm},
	{"padding only", open(1, 0), func(int) []byte { return frame(FrameData, FlagPadded, 1, 3, 0, 0, 0) }, CodeEnhanceYourCalm},
	{"priorities", nil, func(int) []byte { return frame(FramePriority, 0, 1, 0, 0, 0, 3, 0) }, CodeEnhanceYourCalm},
	{"unknown frames", nil, func(int) []byte { return frame(0xff, 0, 0, 1, 2, 3) }, CodeEnhanceYourCalm},
	{"window updates", open(1, 0), func(int) []byte { return frame(FrameWindowUpdate, 0, 1, 0, 0, 0, 1) }, CodeEnhanceYourCalm},
	{"rapid reset", nil, func(i int) []byte {
		id := uint32(2*i + 1)
		return append(open(id, FlagEndStream), frame(FrameRSTStream, 0, id, 0, 0, 0, byte(CodeCancel))...)
	}, CodeEnhanceYourCalm},
	{"rapid reset with data", nil, func(i int) []byte {
		id := uint32(2*i + 1)
		in := append(open(id, 0), frame(FrameData, 0, id, 1)...)
		return append(in, frame(FrameRSTStream, 0, id, 0, 0, 0, byte(CodeCancel))...)
	}, CodeEnhanceYourCalm},
	{
		"data on closed streams", append(open(1, FlagEndStream), frame(FrameRSTStream, 0, 1, 0, 0, 0, 8)...),
		func(int) []byte { return frame(FrameData, 0, 1, 1) }, CodeEnhanceYourCalm,
	},
	{
		"empty continuations", frame(FrameHeaders, 0, 1, requestBlock()...),
		func(int) []byte { return frame(FrameContinuation, 0, 1) }, CodeEnhanceYourCalm,
	},
	{
		"long continuations", frame(FrameHeaders, 0, 1, requestBlock()...),
		func(int) []byte { return frame(FrameContinuation, 0, 1, make([]byte, 1<<14)...) }, CodeEnhanceYourCalm,
	},
	{
		"data beyond the window", open(1, 0),
		func(int) []byte { return frame(FrameData, 0, 1, make([]byte, 1<<14)...) }, CodeNo,
	},
	// The next three make the server reset streams whose handlers have begun
	// (CVE-2025-8671).
	{"data behind the end", nil, func(i int) []byte {
		id := uint32(2*i + 1)
		return append(open(id, FlagEndStream), frame(FrameData, 0, id, 1)...)
	}, CodeEnhanceYourCalm},
	{"headers behind the end", nil, func(i int) []byte {
		id := uint32(2*i + 1)
		return append(open(id, FlagEndStream), open(id, FlagEndStream)...)
	}, CodeEnhanceYourCalm},
	{"window updates of nothing", nil, func(i int) []byte {
		id := uint32(2*i + 1)
		return append(open(id, 0), frame(FrameWindowUpdate, 0, id, 0, 0, 0, 0)...)
	}, CodeEnhanceYourCalm},
	{"connection window overflow", nil, func(int) []byte {
		return frame(FrameWindowUpdate, 0, 0, 0x7f, 0xff, 0xff, 0xff)
	}, CodeFlowControl},
	{"stream window overflow", open(1, 0), func(int) []byte {
		return frame(FrameWindowUpdate, 0, 1, 0x7f, 0xff, 0xff, 0xff)
	}, CodeNo},
}

// answered sends a response header on the client's only stream.
var answered = frame(FrameHeaders, FlagEndHeaders, 1, appendLiteral(nil, responseRun.Fields[0])...)

// clientFloods are a server's attacks on a client whose stream 1 is open.
var clientFloods = []flood{
	{"pings", nil, func(int) []byte { return frame(FramePing, 0, 0, make([]byte, 8)...) }, CodeEnhanceYourCalm},
	{"settings", nil, func(int) []byte { return settingsFrame(SettingInitialWindowSize, 65535) }, CodeEnhanceYourCalm},
	{"settings acks", nil, func(int) []byte { return frame(FrameSettings, FlagAck, 0) }, CodeEnhanceYourCalm},
	{"GOAWAYs", nil, func(int) []byte { return frame(FrameGoAway, 0, 0, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0) }, CodeEnhanceYourCalm},
	{"pushes", nil, func(int) []byte { return frame(FramePushPromise, FlagEndHeaders, 1, 0, 0, 0, 2) }, CodeProtocol},
	{"empty data", answered, func(int) []byte { return frame(FrameData, 0, 1) }, CodeEnhanceYourCalm},
	{"window updates", nil, func(int) []byte { return frame(FrameWindowUpdate, 0, 1, 0, 0, 0, 1) }, CodeEnhanceYourCalm},
	{"informational responses", nil, func(int) []byte {
		return frame(FrameHeaders, FlagEndHeaders, 1, appendLiteral(nil, hpack.HeaderField{Name: ":status", Value: "103"})...)
	}, CodeEnhanceYourCalm},
	{"headers on a closed stream", append(answered, frame(FrameRSTStream, 0, 1, 0, 0, 0, 8)...), func(int) []byte {
		return answered
	}, CodeEnhanceYourCalm},
	{"headers on an idle stream", nil, func(int) []byte {
		return frame(FrameHeaders, FlagEndHeaders, 3, answered[FrameHeaderLen:]...)
	}, CodeProtocol},
	{"empty continuations", frame(FrameHeaders, 0, 1), func(int) []byte { return frame(FrameContinuation, 0, 1) }, CodeEnhanceYourCalm},
	{"connection window overflow", nil, func(int) []byte {
		return frame(FrameWindowUpdate, 0, 0, 0x7f, 0xff, 0xff, 0xff)
	}, CodeFlowControl},
	{"data before headers", nil, func(int) []byte { return frame(FrameData, 0, 1, 1) }, CodeNo},
	{"data beyond the window", answered, func(int) []byte {
		return frame(FrameData, 0, 1, make([]byte, 1<<14)...)
	}, CodeNo},
	{"trailers without an end", answered, func(int) []byte { return answered }, CodeNo},
}

// newClient returns a client whose stream 1 is open.
func newClient(t *testing.T) *recorder {
	cfg := testConfig
	cfg.Client = true
	r := newRecorder(cfg)
	if _, err := r.conn.Feed(0, AppendFrameHeader(nil, FrameHeader{Type: FrameSettings}), 10); err != nil {
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
			case f.code == CodeNo:
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
		if f.code == CodeNo && r.ends[1] > 0 {
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
		in := open(id, FlagEndStream)
		in = append(in, frame(FramePing, 0, 0, make([]byte, 8)...)...)
		in = append(in, frame(FrameWindowUpdate, 0, 0, 0, 0, 0, 1)...)
		if _, err := r.conn.Feed(0, in, 10); err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
		s := r.streams[len(r.streams)-1]
		r.conn.SendHeaders(s, responseRun, nil)
		r.conn.SendData(s, Payload{Data: []byte{1}}, false)
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
		if _, err := r.conn.Feed(0, frame(FrameData, 0, 1, 1), 1); err != nil {
			t.Fatalf("frame %d: %v", i, err)
		}
		r.take()
	}
}

// TestTimeEarnsCredit checks that a peer may ping at a moderate rate without limit.
func TestTimeEarnsCredit(t *testing.T) {
	r := newServer(t, testConfig)
	for i := range 50_000 {
		if _, err := r.conn.Feed(time.Duration(i)*time.Millisecond, frame(FramePing, 0, 0, make([]byte, 8)...), 1); err != nil {
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
	in := frame(FrameHeaders, FlagEndHeaders|FlagEndStream, 1, packed.Bytes()...)
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
	in = frame(FrameHeaders, FlagEndHeaders|FlagEndStream, 3, packed.Bytes()...)
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
		many = binary.BigEndian.AppendUint16(many, uint16(SettingInitialWindowSize))
		many = binary.BigEndian.AppendUint32(many, uint32(i))
	}
	taken := 0
	var err error
	for err == nil && taken < 100 {
		_, err = r.conn.Feed(0, frame(FrameSettings, 0, 0, many...), 1)
		taken++
	}
	var fault *ConnError
	if !errors.As(err, &fault) || fault.Code != CodeEnhanceYourCalm || taken > 10 {
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
	in := frame(FrameWindowUpdate, 0, 0, 0x7f, 0, 0, 0)
	in = append(in, settingsFrame(SettingInitialWindowSize, maxWindow)...)
	in = append(in, open(1, FlagEndStream)...)
	if _, err := r.conn.Feed(0, in, 10); err != nil {
		t.Fatal(err)
	}
	s := r.streams[0]
	r.conn.SendHeaders(s, responseRun, nil)
	for range 100 {
		r.conn.SendData(s, Payload{Data: make([]byte, 10_000)}, false)
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
