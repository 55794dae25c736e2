package service

import (
	"slices"
	"strings"
	"testing"
)

func TestParseFields(t *testing.T) {
	got, err := ParseFields("x-key: s3cret\r\n\n Accept : text/html\nEmpty:")
	if want := []Field{{"X-Key", "s3cret"}, {"Accept", "text/html"}, {"Empty", ""}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	for _, text := range []string{"A: b\n\ns3cret", "A: b\n\nA b: s3cret", "A: b\n\nA: s3cret\x00"} {
		if _, err := ParseFields(text); err == nil || !strings.HasPrefix(err.Error(), "line 3: want a name") || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// A field that is read is valid in a request of every wire.
func FuzzParseFields(f *testing.F) {
	f.Add("a: b\nc:d")
	f.Fuzz(func(t *testing.T, text string) {
		all, err := ParseFields(text)
		for _, field := range all {
			if err == nil && (field.Name == "" || strings.ContainsAny(field.Name+field.Value, "\r\n\x00")) {
				t.Errorf("%q: %q", text, field)
			}
		}
	})
}
