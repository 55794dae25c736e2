package schema

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"
)

func TestTextsBecomeMessages(t *testing.T) {
	for _, c := range []struct {
		call, text      string
		messages, calls int
	}{
		{"Book", ``, 1, 1},
		{"Book", `{}`, 1, 1},
		{"Book", `{"marks": [1]}`, 1, 1},
		{"Book", `[{"marks": [1]}, {}, {}]`, 3, 3},
		{"Book", "{}\n{\"side\": \"SIDE_DEBIT\"}\n", 2, 2},
		{"BookAll", `{}`, 1, 1},
		{"BookAll", `[]`, 0, 1},
		{"BookAll", `[{}, {}]`, 2, 1},
		{"Talk", `{} {} {}`, 3, 1},
		{"Values", `[1, 2]`, 1, 1},
		{"Values", `[1, 2] [3]`, 2, 2},
	} {
		m := ledger(t, "ledger.v1.Ledger/"+c.call)
		calls, err := m.Calls([]byte(c.text))
		if err != nil {
			t.Errorf("%s %s: %v", c.call, c.text, err)
			continue
		}
		messages := 0
		for _, call := range calls {
			messages += len(call)
		}
		if len(calls) != c.calls || messages != c.messages {
			t.Errorf("%s %s: %d messages in %d calls, want %d in %d", c.call, c.text, messages, len(calls), c.messages, c.calls)
		}
	}
}

func TestEncodedDataBecomesMessages(t *testing.T) {
	book := ledger(t, "ledger.v1.Ledger/Book")
	one := must(book.Encode([]byte(`{"order": {"id": "3"}}`)))(t)[0]
	two := must(book.Encode([]byte(`{"marks": [1, 2]}`)))(t)[0]
	both := append(protowire.AppendBytes(nil, one), protowire.AppendBytes(nil, two)...)
	for _, c := range []struct {
		call string
		data []byte
		want [][][]byte
	}{
		{"Book", one, [][][]byte{{one}}},
		{"Book", nil, [][][]byte{{nil}}},
		{"Book", both, [][][]byte{{one}, {two}}},
		{"BookAll", both, [][][]byte{{one, two}}},
	} {
		got, err := ledger(t, "ledger.v1.Ledger/"+c.call).EncodedCalls(c.data)
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s %x: %x, %v; want %x", c.call, c.data, got, err, c.want)
		}
	}
	for _, data := range []string{"{}", "\xff", string(both[:len(both)-1])} {
		if _, err := book.EncodedCalls([]byte(data)); err == nil || !strings.Contains(err.Error(), "neither an encoded ledger.v1.Entry") {
			t.Errorf("%q: %v", data, err)
		}
	}
}

func TestWhatWasEncodedIsDecoded(t *testing.T) {
	m := ledger(t, "ledger.v1.Ledger/Book")
	text := `{"side":"SIDE_CREDIT","cause":{"@type":"type.googleapis.com/ledger.v1.Reason","text":"why"},"note":"7","order":{"id":"3","lines":[{"sku":"a","quantity":2,"price":{"currency":"EUR","cents":"12"}}],"placedAt":"2026-01-02T03:04:05Z","labels":{}},"lines":{},"marks":[]}`
	messages := must(m.Encode([]byte(text)))(t)
	if got := must(m.Decode(messages[0]))(t); string(got) != text {
		t.Errorf("got  %s\nwant %s", got, text)
	}
	// An Any may hold what belongs to Protocol Buffers though no file imports it.
	if _, err := m.Encode([]byte(`{"cause": {"@type": "x/google.protobuf.Duration", "value": "1.5s"}}`)); err != nil {
		t.Error(err)
	}
	if _, err := m.Decode([]byte{0xff}); err == nil || !strings.Contains(err.Error(), "ledger.v1.Entry") {
		t.Errorf("nonsense: %v", err)
	}
}

func TestWrongJSONIsExplained(t *testing.T) {
	for text, says := range map[string]string{
		`{"sde": 1}`:        `line 1, column 2: ledger.v1.Entry has no field "sde": did you mean side?`,
		`{"completely": 1}`: `has no field "completely": want one of side, cause, note, order, lines, marks`,
		"{\n \"order\": {\"lines\": [{}, {\"skuu\": \"\"}]}}":   `line 2, column 27: shop.v1.Line has no field "skuu": did you mean sku?`,
		`{"lines": {"a": {"quantiy": 1}}}`:                      `shop.v1.Line has no field "quantiy": did you mean quantity?`,
		`{"order": {"id": 5}}`:                                  `line 1, column 18: order.id is a string: found 5`,
		`{"order": {"labels": 5}}`:                              `order.labels is a map<string, string>: found 5`,
		`{"order": {"labels": {"k": 5}}}`:                       `order.labels is a map<string, string>: found {"k": 5}`,
		`{"order": {"placedAt": "today"}}`:                      `line 1, column 24: order.placedAt, a google.protobuf.Timestamp: `,
		`{"order": {"placed_at": 1}}`:                           `order.placed_at, a google.protobuf.Timestamp: `,
		`{"order": []}`:                                         `line 1, column 11: order, a shop.v1.Order: `,
		`{"marks": [1, "x"]}`:                                   `line 1, column 15: marks[1] is an int32: found "x"`,
		`{"marks": 7}`:                                          `marks is a repeated int32: found 7`,
		`{"side": "DEBIT"}`:                                     `side is a ledger.v1.Side: found "DEBIT": want one of SIDE_UNSPECIFIED, SIDE_DEBIT`,
		`{"cause": {"@type": "t/ledger.v1.None"}}`:              `no file defines "t/ledger.v1.None", the type of this google.protobuf.Any`,
		`{"cause": {"@type": "t/ledger.v1.Reason", "txt": ""}}`: `ledger.v1.Reason has no field "txt": did you mean text?`,
		`{"cause": {"text": ""}}`:                               `@type`,
		`{"[a.b]": 1}`:                                          `has no field "[a.b]"`,
		`{"order": {"id": "1"}, "order": {}}`:                   `duplicate field`,
		"{\n\"order\": {,}}":                                    `line 2, column 11: this is not JSON: `,
		`{"order": `:                                            `line 1, column 11: this is not JSON: the text ends before the JSON value is complete`,
		`[{}, {"sde": 1}]`:                                      `line 1, column 7: ledger.v1.Entry has no field "sde"`,
		`[]`:                                                    `the array of requests is empty`,
		`7`:                                                     `line 1, column 1: a ledger.v1.Entry: `,
		`[{}, null]`:                                            `line 1, column 6: a ledger.v1.Entry: `,
		"{\"side\": \"\xff\"}":                                  `invalid UTF-8`,
	} {
		_, err := ledger(t, "ledger.v1.Ledger/Book").Encode([]byte(text))
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s\n got %v\nwant %s", text, err, says)
		}
	}
}

// Whatever the JSON, it becomes messages that are decoded to the same messages, or an
// error with words.
func FuzzEncode(f *testing.F) {
	m := ledger(f, "ledger.v1.Ledger/Book")
	for _, text := range []string{
		``, `{}`, `[{}, {"marks": [1]}]`, `{"sde": 1}`, `{"order": {"lines": [{"sku": "a", "price": {"cents": "x"}}]}}`,
		`{"cause": {"@type": "t/ledger.v1.Reason", "text": "why"}, "note": "7"}`, `{"side": "X"}`, `{"lines": {"a": {"b": 1}}}`,
		`{"cause": {"@type": "t/google.protobuf.Any", "value": {}}}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		messages, err := m.Encode(text)
		if err != nil {
			if strings.TrimSpace(err.Error()) == "" || strings.Contains(err.Error(), "proto:") {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		for _, message := range messages {
			d := dynamicpb.NewMessage(m.Descriptor.Input())
			if err := proto.Unmarshal(message, d); err != nil {
				t.Fatal(err)
			}
			decoded, err := m.Decode(message)
			if err != nil {
				continue // bytes that hold an Any that is too deep for JSON
			}
			again, err := m.Encode(decoded)
			if err != nil || len(again) != 1 {
				t.Fatalf("%s: %v", decoded, err)
			}
			if twice, err := m.Decode(again[0]); err != nil || !bytes.Equal(decoded, twice) {
				t.Errorf("%s became %s, %v", decoded, twice, err)
			}
		}
	})
}
