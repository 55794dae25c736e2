package format

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestASCIIForLocalesWithoutUTF8(t *testing.T) {
	for _, c := range []struct {
		env  map[string]string
		want bool
	}{
		{map[string]string{}, false}, // containers and CI have no locale
		{map[string]string{"LANG": "C"}, true},
		{map[string]string{"LANG": "POSIX"}, true},
		{map[string]string{"LANG": "C.UTF-8"}, false},
		{map[string]string{"LANG": "de_DE.utf8"}, false},
		{map[string]string{"LANG": "de_DE.UTF-8", "LC_ALL": "C"}, true},
		{map[string]string{"LANG": "C", "LC_CTYPE": "en_US.UTF-8"}, false},
	} {
		if got := hasOnlyASCII(func(name string) string { return c.env[name] }); got != c.want {
			t.Errorf("%v: %v", c.env, got)
		}
	}
}

func TestEncodeKeepsColumns(t *testing.T) {
	text := "≤ 4.1µs ▁▂▃▄▅▆▇█ ▏■· – … × ± → • └ 95 % κσ−"
	got := Terminal{ASCII: true}.Encode(text)
	for _, sign := range got {
		if sign >= utf8.RuneSelf {
			t.Errorf("%q has %q", got, sign)
		}
	}
	if len(got) != utf8.RuneCountInString(text) {
		t.Errorf("%q is not as wide as %q", got, text)
	}
	var out strings.Builder
	to := encodingWriter{&out, Terminal{ASCII: true, Width: 80}}
	if n, err := to.Write([]byte(text)); n != len(text) || err != nil || out.String() != got || TerminalOf(to).Width != 80 {
		t.Errorf("wrote %d of %d bytes, %v: %q", n, len(text), err, out.String())
	}
	if same := (Terminal{}).Encode(text); same != text {
		t.Errorf("UTF-8 became %q", same)
	}
}

func TestSpark(t *testing.T) {
	if got := Spark([]float64{0, 1, 2, 4, 7, 7}); got != "▁▂▃▅██" {
		t.Errorf("got %s", got)
	}
	if got := Spark([]float64{0, 0}) + Spark(nil); got != "▁▁" {
		t.Errorf("of nothing: %s", got)
	}
	if strings.ContainsRune(Spark([]float64{3}), '▁') {
		t.Error("a single value is the largest")
	}
}
