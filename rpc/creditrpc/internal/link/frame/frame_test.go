package frame

import (
	"bytes"
	"testing"
)

func TestHello(t *testing.T) {
	want := Settings{Version: Version, Window: 1 << 20, PerStream: 1 << 17, Calls: 500, MaxMessage: 4 << 20, MaxMeta: 16 << 10}
	wire := AppendHello(nil, want)
	h, err := ReadHead(wire)
	if err != nil || h.Type != Hello || Len(wire) != len(wire) {
		t.Fatalf("%+v of %d bytes: %v", h, len(wire), err)
	}
	if got, err := ReadHello(append(wire[HeaderLen:], 99, 5)); err != nil || got != want { // an unknown setting
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []string{"", "HTTP/1.1 400 Bad Request", "CRPC", "CRPC\x02", "CRPC\x01\x01"} {
		if _, err := ReadHello([]byte(bad)); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
}

func TestHeads(t *testing.T) {
	for _, h := range []Head{{0, Hello, 0, 0}, {65536, Request, End | Long, 1}, {5, Data, More, 1<<32 - 1}, {2, Credit, 0, 7}, {2, Credit, 0, 0}, {8, Ping, Answer, 0}} {
		if got, err := ReadHead(h.Append(nil)); err != nil || got != h {
			t.Errorf("%+v became %+v: %v", h, got, err)
		}
	}
	for _, h := range []Head{{0, typeCount, 0, 0}, {0, Data, 0, 0}, {0, Hello, 0, 1}} {
		if _, err := ReadHead(h.Append(nil)); err == nil {
			t.Errorf("%+v is read", h)
		}
	}
}

// What is read is written as it was, and no payload ends the program.
func FuzzPayloads(f *testing.F) {
	f.Add(RequestStart{3, 1000, []byte("meta")}.Append(nil))
	f.Add(Ending{5, []byte("not found"), []byte("details"), AppendMeta(nil, "key", "value")}.Append(nil))
	f.Add(Grant{1 << 20, 9}.Append(nil))
	f.Add(AppendHello(nil, Settings{Version: Version})[HeaderLen:])
	f.Fuzz(func(t *testing.T, payload []byte) {
		_, _ = ReadHello(payload)
		if r := NewReader(payload); true {
			begin := ReadRequestStart(r)
			if again := NewReader(append(begin.Append(nil), r.Rest()...)); r.Err() == nil {
				same := ReadRequestStart(again)
				if same.Method != begin.Method || same.Timeout != begin.Timeout || !bytes.Equal(same.Meta, begin.Meta) {
					t.Errorf("%+v became %+v", begin, same)
				}
			}
		}
		if e, err := ReadEnding(payload); err == nil {
			same, err := ReadEnding(e.Append(nil))
			if err != nil || same.Code != e.Code || !bytes.Equal(same.Message, e.Message) || !bytes.Equal(same.Details, e.Details) || !bytes.Equal(same.Meta, e.Meta) {
				t.Errorf("%+v became %+v: %v", e, same, err)
			}
		}
		if g, err := ReadGrant(payload); err == nil {
			if same, err := ReadGrant(g.Append(nil)); err != nil || same != g {
				t.Errorf("%+v became %+v: %v", g, same, err)
			}
		}
		var meta []byte
		if EachMeta(payload, func(key, value []byte) { meta = AppendMeta(meta, string(key), string(value)) }) == nil {
			again := []byte(nil)
			if err := EachMeta(meta, func(key, value []byte) { again = AppendMeta(again, string(key), string(value)) }); err != nil || !bytes.Equal(again, meta) {
				t.Errorf("metadata %x became %x: %v", meta, again, err)
			}
		}
		if len(payload) >= HeaderLen {
			if h, err := ReadHead(payload); err == nil && !bytes.Equal(h.Append(nil), payload[:HeaderLen]) {
				t.Errorf("%x became %+v", payload[:HeaderLen], h)
			}
		}
	})
}
