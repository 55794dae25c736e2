package events

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// readAll returns the events of a text as "type|data", and the reader at its end.
func readAll(t *testing.T, from io.Reader, limit int) (all []string, r *Reader, err error) {
	t.Helper()
	r = NewReader(from, limit)
	for {
		event, err := r.Next()
		if err != nil {
			return all, r, err
		}
		all = append(all, event.Type+"|"+string(event.Data))
	}
}

func TestEvents(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"LF":                  {"data: a\n\ndata: b\n\n", []string{"message|a", "message|b"}},
		"CR":                  {"data: a\r\rdata: b\r\r", []string{"message|a", "message|b"}},
		"CRLF":                {"data: a\r\n\r\ndata: b\r\n\r\n", []string{"message|a", "message|b"}},
		"mixed ends":          {"data: a\r\n\ndata: b\r\r\ndata: c\n\r", []string{"message|a", "message|b", "message|c"}},
		"several lines":       {"data: a\ndata\ndata:b\n\n", []string{"message|a\n\nb"}},
		"one space only":      {"data:  a\n\n", []string{"message| a"}},
		"comment":             {": ping\n\n:\ndata: a\n\n", []string{"message|a"}},
		"byte order mark":     {"\xef\xbb\xbfdata: a\n\n", []string{"message|a"}},
		"second mark is text": {"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\n", nil},
		"type":                {"event: tick\ndata: a\n\ndata: b\n\n", []string{"tick|a", "message|b"}},
		"type without data":   {"event: tick\n\ndata: b\n\n", []string{"message|b"}},
		"empty data":          {"data\n\n", []string{"message|"}},
		"unknown field":       {"date: a\nDATA: b\ndata: c\n\n", []string{"message|c"}},
		"incomplete":          {"data: a\n\ndata: b\n", []string{"message|a"}},
		"colon in the value":  {"data: {\"a\": 1}\n\n", []string{"message|{\"a\": 1}"}},
	} {
		for how, from := range map[string]io.Reader{"at once": strings.NewReader(c.text), "by bytes": iotest.OneByteReader(strings.NewReader(c.text))} {
			got, _, err := readAll(t, from, 100)
			if !errors.Is(err, io.EOF) || !slices.Equal(got, c.want) {
				t.Errorf("%s, %s: %q, %v; want %q, EOF", name, how, got, err, c.want)
			}
		}
	}
}

// An id counts once its event is complete, also without data. A time to wait has only digits.
func TestIDAndRetry(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		id    string
		retry time.Duration
	}{
		"id: 7\ndata: a\n\n":                         {id: "7"},
		"id: 7\n\nid: 8\ndata: a\n":                  {id: "7"},
		"id: 7\ndata: a\n\nid\ndata: b\n\n":          {id: ""},
		"id: 7\n\nid: a\x00b\ndata: b\n\n":           {id: "7"},
		"retry: 1500\n\n":                            {retry: 1500 * time.Millisecond},
		"retry: 1500\nretry: +3\nretry: 2s\nretry\n": {retry: 1500 * time.Millisecond},
	} {
		_, r, _ := readAll(t, strings.NewReader(text), 100)
		if wait, known := r.Retry(); r.LastID() != want.id || wait != want.retry || known != (want.retry > 0) {
			t.Errorf("%q: id %q, retry %v (%v); want %+v", text, r.LastID(), wait, known, want)
		}
	}
}

// A line that ends with CR is complete at once: the server may send no byte for a long time.
func TestLoneCarriageReturnEndsALine(t *testing.T) {
	t.Parallel()
	from, to := io.Pipe()
	go func() { _, _ = io.WriteString(to, "data: a\r\r") }() // ends when the reader has read it
	event, err := NewReader(from, 100).Next()
	if err != nil || string(event.Data) != "a" {
		t.Errorf("%q, %v", event.Data, err)
	}
}

// A server that sends without end cannot fill the memory.
func TestLimits(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		strings.Repeat("x", 101), "data: " + strings.Repeat("x", 200), strings.Repeat("data: 0123456789\n", 11),
	} {
		if _, r, err := readAll(t, strings.NewReader(text), 100); err == nil || !strings.Contains(err.Error(), "more than 100 bytes") || cap(r.data) > 1000 {
			t.Errorf("%.20q…: %v", text, err)
		}
	}
}

// Any text gives the same events at once and byte by byte, within the limit and without CR in lines.
func FuzzReader(f *testing.F) {
	for _, text := range []string{"data: a\r\n\r\n", "\xef\xbb\xbfid: 1\nevent: x\ndata: a\rdata: b\n\n", "retry: 10\n: c\n\n", "data\n\n\n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		const limit = 64
		whole, _, wholeErr := readAll(t, strings.NewReader(text), limit)
		bytes, _, bytesErr := readAll(t, iotest.OneByteReader(strings.NewReader(text)), limit)
		if !slices.Equal(whole, bytes) || wholeErr.Error() != bytesErr.Error() {
			t.Fatalf("%q, %v at once, but %q, %v by bytes", whole, wholeErr, bytes, bytesErr)
		}
		for _, one := range whole {
			if _, data, _ := strings.Cut(one, "|"); len(data) > limit || strings.Contains(data, "\r") {
				t.Fatalf("the data %q", data)
			}
		}
	})
}
